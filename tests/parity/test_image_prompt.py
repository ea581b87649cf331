"""The networks of IP-Adapters against the reference's on torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from checkpoints import UNET, UNET_XL, randomise
from diffusers.models.embeddings import ImageProjection as TheirProjection
from diffusers.models.embeddings import IPAdapterPlusImageProjection as TheirResampler
from networks import Array, Filled, channels_first, noise, relative_difference
from transformers import CLIPVisionConfig
from transformers import CLIPVisionModelWithProjection as TheirEncoder

from sdjax_engine.models.clip import CLIPVisionModelWithProjection
from sdjax_engine.models.image_prompt import (
    ImageProjection,
    ImagePromptAttentions,
    IPAdapterPlusImageProjection,
)
from sdjax_engine.models.image_prompt_config import in_order
from sdjax_engine.models.unet import UNet2DConditionModel, cross_attentions

pytestmark = pytest.mark.parity

BOUND = 1e-4
STRENGTHS = np.array([0.6, 0.0, 1.4], np.float32)
TIMESTEPS = np.array([981.0, 501.0, 20.5], np.float32)
ENCODER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 28,
    "patch_size": 7,
    "hidden_act": "gelu",
    "projection_dim": 20,
}
PLUS = {
    "embed_dims": 32,
    "output_dims": 40,
    "hidden_dims": 24,
    "depth": 3,
    "dim_head": 8,
    "heads": 4,
    "num_queries": 5,
}


def test_the_picture_encoder_gives_the_reference_its_last_but_one_states_and_embeddings() -> None:
    theirs = randomise(TheirEncoder(CLIPVisionConfig(**ENCODER)), seed=1)
    pixels = noise(2, 28, 28, 3)
    with torch.no_grad():
        expected = theirs(channels_first(pixels), output_hidden_states=True)

    made = Filled(CLIPVisionModelWithProjection, ENCODER, theirs)(pixels)

    assert relative_difference(made.embeds, expected.image_embeds) <= BOUND
    assert relative_difference(made.hidden, expected.hidden_states[-2]) <= BOUND
    assert relative_difference(made.hidden, expected.hidden_states[-1]) > BOUND


def test_the_plain_and_the_plus_projection_make_the_tokens_of_the_reference() -> None:
    plain = {"image_embed_dim": 20, "cross_attention_dim": 40, "num_image_text_embeds": 4}
    for kind, theirs, config, x in (
        (ImageProjection, TheirProjection(**plain), plain, noise(3, 20)),
        (IPAdapterPlusImageProjection, TheirResampler(**PLUS), PLUS | {"inner": 4 * 24}, noise(3, 17, 32)),
    ):
        reference = randomise(theirs, seed=2)
        with torch.no_grad():
            expected = reference(torch.from_numpy(x))
        difference = relative_difference(Filled(kind, config, reference)(x), expected)
        print(f"\n{kind.__name__}: {difference:.1e}")
        assert difference <= BOUND


class Maps(torch.nn.Module):
    """The keys' and values' maps of an adapter's file."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.tensors = dict(tensors)

    def named_parameters(self, *_: Any, **__: Any) -> Any:
        return [(f"ip_adapter.{name}", torch.nn.Parameter(each)) for name, each in self.tensors.items()]


THREE_BLOCKS = UNET | {
    "block_out_channels": (16, 32, 48),
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D", "CrossAttnUpBlock2D"),
}


@pytest.mark.parametrize("config", [THREE_BLOCKS, UNET_XL], ids=["SD 1", "SDXL"])
def test_rows_of_their_own_strength_attend_to_their_picture_as_the_reference_does_alone(
    config: dict[str, Any],
) -> None:
    reference = randomise(diffusers.UNet2DConditionModel(**config), seed=3)
    ours = Filled(UNet2DConditionModel, config, reference)
    context = config["cross_attention_dim"]
    tensors, widths = adapter_of(UNet2DConditionModel(config, dtype="float32"), context)
    maps = Filled(ImagePromptAttentions, {"cross_attention_dim": context, "widths": widths}, Maps(tensors))
    projection = {"image_embed_dim": 20, "cross_attention_dim": context, "num_image_text_embeds": 4}
    theirs = randomise(TheirProjection(**projection), seed=4)
    embeds, sample, texts = noise(3, 20, seed=5), noise(3, 8, 6, 4), noise(3, 9, context, seed=6)
    sizes = sizes_of(config)

    tokens = Filled(ImageProjection, projection, theirs)(embeds)
    image = maps(tokens, call=lambda net, tokens: net.project(tokens))

    def paint(net: Any, *values: Array, **sizes: Array) -> Any:
        sample, timesteps, texts, image, strength = values
        prompt = net.project(texts)._replace(image=image, image_strength=strength)
        return net(sample, timesteps, prompt, **sizes)

    painted = ours(sample, TIMESTEPS, texts, image, STRENGTHS, call=paint, **sizes)
    plain = ours(sample, TIMESTEPS, texts, **sizes)

    np.testing.assert_allclose(painted[1], plain[1], rtol=0, atol=1e-6 * float(np.abs(plain).max()))
    image_proj = {name.replace("image_embeds", "proj"): each for name, each in theirs.state_dict().items()}
    reference._load_ip_adapter_weights(
        {"image_proj": image_proj, "ip_adapter": dict(tensors)}, low_cpu_mem_usage=False
    )
    for index in (0, 2):
        for processor in reference.attn_processors.values():
            if hasattr(processor, "scale"):
                processor.scale = [float(STRENGTHS[index])]
        one = slice(index, index + 1)
        told = {name: torch.from_numpy(each[one]) for name, each in sizes.items()}
        with torch.no_grad():
            expected = reference(
                channels_first(sample[one]),
                torch.from_numpy(TIMESTEPS[one]),
                torch.from_numpy(texts[one]),
                added_cond_kwargs=told | {"image_embeds": [torch.from_numpy(embeds[one])[:, None]]},
            ).sample
        print(f"\nwith an image prompt: {relative_difference(painted[one], expected):.1e}")
        assert relative_difference(painted[one], expected) <= BOUND
        assert relative_difference(plain[one], expected) > 10 * BOUND


def adapter_of(unet: UNet2DConditionModel, context: int) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    """An adapter's tensors as files have them, and each cross-attention's width."""
    layers = cross_attentions(unet)
    widths = {place: layers[place].to_k.out_features for place in in_order(layers)}
    random = torch.Generator().manual_seed(7)
    tensors = {
        f"{2 * index + 1}.{leaf}.weight": torch.randn(width, context, generator=random) / context**0.5
        for index, width in enumerate(widths.values())
        for leaf in ("to_k_ip", "to_v_ip")
    }
    return tensors, widths


def sizes_of(config: dict[str, Any]) -> dict[str, Array]:
    if not config.get("addition_embed_type"):
        return {}
    ids = np.array([[64, 48, 0, 0, 64, 48]] * 3, np.float32)
    return {"text_embeds": noise(3, 40, seed=8), "time_ids": ids}
