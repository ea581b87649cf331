"""The networks of every family, and unusual ones, against the reference with the same weights.

Differences are the largest of any value, relative to the reference's largest. Run with `-s` to see each
architecture's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
import transformers
from checkpoints import FAMILIES, UNET, UNET_XL, VAE, build_tokenizer, randomise, text_encoder_config
from flax import nnx
from networks import Array, Filled, channels_first, noise, relative_difference

from sdjax_engine.models.autoencoders import AutoencoderKL
from sdjax_engine.models.clip import CLIPTextModel, CLIPTextModelWithProjection
from sdjax_engine.models.unet import UNet2DConditionModel

pytestmark = pytest.mark.parity

BOUNDS = {"float32": 1e-4, "bfloat16": 5e-2}
Compare = Callable[[str, str, float], None]

CROSS_ATTENTION = {
    "down_block_types": ("CrossAttnDownBlock2D",) * 2,
    "up_block_types": ("CrossAttnUpBlock2D",) * 2,
}
UNETS: dict[str, dict[str, Any]] = {
    "SD 2 and SD Turbo": UNET | FAMILIES["SD 2"]["unet"],
    "SDXL": UNET_XL,
    "LCM": UNET | FAMILIES["LCM"]["unet"],
    "only cross-attention": UNET | CROSS_ATTENTION | {"only_cross_attention": (True, False)},
    "layers of each transformer": UNET_XL
    | CROSS_ATTENTION
    | {
        "layers_per_block": 2,
        "transformer_layers_per_block": ((1, 2), (2, 0)),
        "reverse_transformer_layers_per_block": ((1, 0, 2), (0, 1, 1)),
        "mid_block_type": "UNetMidBlock2D",
    },
    "nine channels, no block in the middle": UNET
    | {"in_channels": 9, "mid_block_type": None, "attention_head_dim": (8, 2)},
}
HALF_PRECISION = ("SD 2 and SD Turbo", "SDXL")


@pytest.fixture(scope="module")
def compare() -> Iterator[Compare]:
    """Asserts that a difference is within the bound of its dtype; all are printed at the end."""
    found: list[tuple[str, str, float]] = []

    def within_bound(network: str, dtype: str, difference: float) -> None:
        found.append((network, dtype, difference))
        assert difference <= BOUNDS[dtype]

    yield within_bound
    print("\n| network | dtype | relative difference |\n|---|---|---|")
    for network, dtype, difference in found:
        print(f"| {network} | {dtype} | {difference:.1e} |")


def conditions_of(config: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """The network's further inputs: ours, and the reference's, whose pipeline embeds the guidance."""
    ours: dict[str, Array] = {}
    theirs: dict[str, Any] = {}
    if config.get("addition_embed_type"):
        sizes = np.array([[1024, 768, 0, 16, 1024, 1024], [64, 64, 0, 0, 64, 64]], np.float32)
        ours |= {"text_embeds": noise(2, 40, seed=3), "time_ids": sizes}
        theirs["added_cond_kwargs"] = {name: torch.from_numpy(value) for name, value in ours.items()}
    if width := config.get("time_cond_proj_dim"):
        ours["guidance"] = np.array([8.5, 1.25], np.float32)
        embed = diffusers.LatentConsistencyModelPipeline.get_guidance_scale_embedding
        theirs["timestep_cond"] = embed(None, torch.from_numpy(ours["guidance"] - 1), embedding_dim=width)
    return ours, theirs


def unet_inputs(config: dict[str, Any]) -> tuple[Array, Array, Array]:
    sample = noise(2, 8, 6, config.get("in_channels", 4))
    return sample, np.array([981.0, 20.5], np.float32), noise(2, 9, config["cross_attention_dim"], seed=1)


def reference_unet(config: dict[str, Any]) -> torch.nn.Module:
    return randomise(diffusers.UNet2DConditionModel(**config), seed=7)


def predict(unet: torch.nn.Module, sample: Array, *values: Array, **named: Any) -> torch.Tensor:
    with torch.no_grad():
        return unet(channels_first(sample), *map(torch.from_numpy, values), **named).sample


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float32") for name in UNETS), *((name, "bfloat16") for name in HALF_PRECISION)],
)
def test_unet_of_every_family_predicts_what_the_reference_predicts(
    name: str, dtype: str, compare: Compare
) -> None:
    config, inputs = UNETS[name], unet_inputs(UNETS[name])
    told, told_reference = conditions_of(config)
    reference = reference_unet(config)
    ours = Filled(UNet2DConditionModel, config, reference, dtype=dtype)(*inputs, **told)

    compare(f"UNet, {name}", dtype, relative_difference(ours, predict(reference, *inputs, **told_reference)))


def test_states_beyond_the_context_length_have_no_influence(compare: Compare) -> None:
    config = UNETS["only cross-attention"]
    reference = reference_unet(config)
    sample, timesteps, context = unet_inputs(config)
    lengths = np.array([9, 4], np.int32)
    ours = Filled(UNet2DConditionModel, config, reference)
    expected = predict(reference, sample[1:], timesteps[1:], context[1:, :4])

    context[1, 4:] = np.nan
    with_nan = np.asarray(ours(sample, timesteps, context, context_lengths=lengths))
    context[1, 4:] = 1e6
    with_garbage = np.asarray(ours(sample, timesteps, context, context_lengths=lengths))

    compare("UNet, shorter context", "float32", relative_difference(with_nan[1:], expected))
    np.testing.assert_array_equal(with_nan, with_garbage)


def ask(config: dict[str, Any], told: dict[str, Array]) -> None:
    """Trace the network without weights."""
    network = UNet2DConditionModel(config, dtype="float32")
    nnx.eval_shape(lambda unet: unet(*unet_inputs(config), **told), network)


def test_a_network_takes_exactly_its_required_arguments() -> None:
    sizes = {"text_embeds": np.zeros((2, 40), np.float32), "time_ids": np.zeros((2, 6), np.float32)}
    ask(UNET_XL, sizes)

    for config, told in (
        (UNET_XL, {}),
        (UNET_XL, {"text_embeds": sizes["text_embeds"]}),
        (UNET_XL, {"time_ids": sizes["time_ids"]}),
        (UNET, sizes),
        (UNET, {"guidance": np.ones(2, np.float32)}),
    ):
        with pytest.raises(ValueError, match=r"needs|takes no"):
            ask(config, told)


def prompts() -> tuple[Array, dict[str, Any]]:
    """Token ids of three texts, the longest of which is cut to 77 tokens, and a config for them."""
    tokenizer = build_tokenizer(pad_token="!")
    texts = ["", "a red circle", "a large blue star above a small green heart " * 9]
    ids = tokenizer(texts, padding="max_length", truncation=True, max_length=77, return_tensors="np")
    return ids.input_ids.astype(np.int32), text_encoder_config(tokenizer)


TEXT_ENCODERS: dict[str, dict[str, Any]] = {
    "the end's id known": {"hidden_act": "gelu", "projection_dim": 40},
    "the end's id unknown": {"eos_token_id": 2, "num_hidden_layers": 1},
}


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float32") for name in TEXT_ENCODERS), ("the end's id known", "bfloat16")]
)
def test_text_encoder_with_projection_equals_the_reference(name: str, dtype: str, compare: Compare) -> None:
    ids, config = prompts()
    config |= TEXT_ENCODERS[name]
    reference = randomise(
        transformers.CLIPTextModelWithProjection(transformers.CLIPTextConfig(**config)), seed=5
    )
    theirs = reference(torch.from_numpy(ids).long(), output_hidden_states=True)
    encoder = Filled(CLIPTextModelWithProjection, config, reference, dtype=dtype)

    last = encoder(ids)
    before = encoder(ids, call=lambda model, ids: model(ids, penultimate=True))

    compare("text encoder, last state", dtype, relative_difference(last.hidden, theirs.last_hidden_state))
    compare("text encoder, penultimate", dtype, relative_difference(before.hidden, theirs.hidden_states[-2]))
    for encoding in (last, before):
        compare("text encoder, projected", dtype, relative_difference(encoding.pooled, theirs.text_embeds))


def test_text_encoder_without_projection_pools_as_the_reference_does(compare: Compare) -> None:
    ids, config = prompts()
    reference = randomise(transformers.CLIPTextModel(transformers.CLIPTextConfig(**config)), seed=6)
    theirs = reference(torch.from_numpy(ids).long(), output_hidden_states=True)

    ours = Filled(CLIPTextModel, config, reference)(ids, call=lambda model, ids: model(ids, penultimate=True))

    compare("text encoder, pooled", "float32", relative_difference(ours.pooled, theirs.pooler_output))
    compare(
        "text encoder, penultimate", "float32", relative_difference(ours.hidden, theirs.hidden_states[-2])
    )


def test_vae_with_the_latents_own_mean_and_spread_is_the_references(compare: Compare) -> None:
    mean, std = (-1.5, 0.25, 0.5, 2.0), (0.5, 1.5, 2.0, 8.0)
    config = VAE | {"latents_mean": mean, "latents_std": std, "force_upcast": False}
    reference = randomise(diffusers.AutoencoderKL(**config), seed=8)
    ours = Filled(AutoencoderKL, config, reference)
    latents, pixels = noise(1, 4, 6, 4), np.tanh(noise(1, 16, 24, 3))
    of_pixels = reference.encode(channels_first(pixels)).latent_dist

    decoded = ours(latents, call=lambda model, x: model.decode(x))
    encoded, logvar = ours(pixels, call=lambda model, x: model.encode(x))

    theirs = reference.decode(channels_first(latents * np.float32(std) + np.float32(mean))).sample
    compare("VAE, decoding", "float32", relative_difference(decoded, theirs))
    spread = torch.tensor(std)[None, :, None, None]
    centred = (of_pixels.mean - torch.tensor(mean)[None, :, None, None]) / spread
    compare("VAE, encoding", "float32", relative_difference(encoded, centred))
    compare("VAE, encoding", "float32", relative_difference(np.exp(logvar / 2), of_pixels.std / spread))


def test_vae_of_sixteen_channels_without_quant_convolutions_is_the_references(compare: Compare) -> None:
    config = VAE | {"latent_channels": 16, "use_quant_conv": False, "use_post_quant_conv": False}
    reference = randomise(diffusers.AutoencoderKL(**config), seed=9)
    ours = Filled(AutoencoderKL, config, reference)
    latents, pixels = noise(1, 4, 6, 16), np.tanh(noise(1, 32, 48, 3))

    decoded = ours(latents, call=lambda model, x: model.decode(x))
    mean, logvar = ours(pixels, call=lambda model, x: model.encode(x))

    theirs = reference.encode(channels_first(pixels)).latent_dist
    decoded_there = reference.decode(channels_first(latents)).sample
    compare("VAE, 16 channels, decoding", "float32", relative_difference(decoded, decoded_there))
    compare("VAE, 16 channels, encoding", "float32", relative_difference(mean, theirs.mean))
    compare("VAE, 16 channels, encoding", "float32", relative_difference(np.exp(logvar / 2), theirs.std))
