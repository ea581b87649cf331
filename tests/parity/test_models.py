"""Each network against the reference's on torch, with the weights of the same tiny checkpoint.

Differences are the largest of any value, relative to the reference's largest. Run with `-s` to see the worst
of each network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from checkpoints import make_tiny_checkpoint
from diffusers import AutoencoderKL, UNet2DConditionModel
from networks import Array, channels_first, noise, relative_difference
from transformers import CLIPTextModel

from sdjax_engine.weights import Component, load_checkpoint

pytestmark = pytest.mark.parity

BOUNDS = {"float32": 1e-4, "bfloat16": 5e-2}
Compare = Callable[[str, str, float], None]

UNETS: dict[str, dict[str, Any]] = {
    "as in SD 1": {},
    "three uneven blocks": {
        "block_out_channels": (16, 32, 48),
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        "layers_per_block": (2, 1, 1),
    },
    "every other switch": {
        "act_fn": "gelu",
        "center_input_sample": True,
        "conv_in_kernel": 5,
        "conv_out_kernel": 1,
        "downsample_padding": 0,
        "flip_sin_to_cos": False,
        "freq_shift": 1,
        "norm_eps": 1e-3,
        "time_embedding_dim": 40,
    },
}
VAES: dict[str, dict[str, Any]] = {
    "as in SD 1": {},
    "as in the demo": {"mid_block_add_attention": False},
    "without quantising convolutions": {"use_quant_conv": False, "use_post_quant_conv": False},
    "two uneven blocks": {
        "block_out_channels": (16, 24),
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
        "layers_per_block": 2,
        "latent_channels": 4,
    },
}
TEXT_ENCODERS: dict[str, dict[str, Any]] = {
    "as in SD 1": {},
    "as in SD 2": {"hidden_act": "gelu", "num_hidden_layers": 3, "num_attention_heads": 2},
}


@pytest.fixture(scope="module")
def compare() -> Iterator[Compare]:
    """Asserts that a difference is within the bound of its dtype; the worst are printed at the end."""
    worst: dict[tuple[str, str], float] = {}

    def within_bound(network: str, dtype: str, difference: float) -> None:
        worst[network, dtype] = max(worst.get((network, dtype), 0.0), difference)
        assert difference <= BOUNDS[dtype]

    yield within_bound
    print("\n| network | dtype | worst relative difference |\n|---|---|---|")
    for (network, dtype), difference in worst.items():
        print(f"| {network} | {dtype} | {difference:.1e} |")


def run(component: Component, call: Callable[..., Any], *values: Array) -> Any:
    module = component.module()
    return jax.jit(call)(module, *values)


def unet_difference(folder: Path, *, height: int = 8, width: int = 8, dtype: str = "float32") -> float:
    sample, encodings = noise(2, height, width, 4), noise(2, 77, 32, seed=1)
    timesteps = np.array([981.0, 20.5], np.float32)
    reference = UNet2DConditionModel.from_pretrained(folder / "unet", low_cpu_mem_usage=False)
    with torch.no_grad():
        theirs = reference(
            channels_first(sample), torch.from_numpy(timesteps), torch.from_numpy(encodings)
        ).sample
    component = load_checkpoint(str(folder), dtype=dtype).components["unet"]
    ours = run(component, lambda model, *values: model(*values), sample, timesteps, encodings)
    return relative_difference(ours, theirs)


@pytest.mark.parametrize("overrides", UNETS.values(), ids=UNETS)
def test_unet_predicts_what_the_reference_predicts(
    overrides: dict[str, Any], compare: Compare, tmp_path: Path
) -> None:
    folder = make_tiny_checkpoint(tmp_path, unet=overrides)

    compare("UNet", "float32", unet_difference(folder))


def test_unet_supports_odd_sizes(compare: Compare, tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path, unet=UNETS["three uneven blocks"])

    compare("UNet", "float32", unet_difference(folder, height=7, width=10))


def test_unet_in_bfloat16_stays_near_the_reference(compare: Compare, tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path)

    compare("UNet", "bfloat16", unet_difference(folder, dtype="bfloat16"))


def decode_difference(folder: Path, *, dtype: str) -> float:
    latents = noise(2, 6, 8, 4)
    reference = AutoencoderKL.from_pretrained(folder / "vae", low_cpu_mem_usage=False)
    component = load_checkpoint(str(folder), dtype=dtype).components["vae"]
    ours = run(component, lambda model, x: model.decode(x), latents)
    return relative_difference(ours, reference.decode(channels_first(latents)).sample)


@pytest.mark.parametrize("overrides", VAES.values(), ids=VAES)
def test_vae_decodes_as_the_reference_does(
    overrides: dict[str, Any], compare: Compare, tmp_path: Path
) -> None:
    folder = make_tiny_checkpoint(tmp_path, vae=overrides)

    compare("VAE, decoding", "float32", decode_difference(folder, dtype="float32"))


def test_vae_in_bfloat16_stays_near_the_reference(compare: Compare, tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path)

    compare("VAE, decoding", "bfloat16", decode_difference(folder, dtype="bfloat16"))


@pytest.mark.parametrize("overrides", VAES.values(), ids=VAES)
def test_vae_encodes_as_the_reference_does(
    overrides: dict[str, Any], compare: Compare, tmp_path: Path
) -> None:
    folder = make_tiny_checkpoint(tmp_path, vae=overrides)
    pixels = np.tanh(noise(2, 32, 48, 3))
    reference = AutoencoderKL.from_pretrained(folder / "vae", low_cpu_mem_usage=False)
    latents = reference.encode(channels_first(pixels)).latent_dist

    vae = load_checkpoint(str(folder)).components["vae"]
    mean, logvar = run(vae, lambda model, x: model.encode(x), pixels)

    compare("VAE, encoding", "float32", relative_difference(mean, latents.mean))
    compare("VAE, encoding", "float32", relative_difference(logvar, latents.logvar))


def text_difference(folder: Path, *, dtype: str) -> float:
    checkpoint = load_checkpoint(str(folder), dtype=dtype)
    ids = np.stack([checkpoint.tokenizers[0].encode(text) for text in ("", "a red circle", "그림 🎨 صورة")])
    reference = CLIPTextModel.from_pretrained(folder / "text_encoder")
    ours = run(checkpoint.components["text_encoder"], lambda model, x: model(x).hidden, ids)
    return relative_difference(ours, reference(torch.from_numpy(ids).long()).last_hidden_state)


@pytest.mark.parametrize("overrides", TEXT_ENCODERS.values(), ids=TEXT_ENCODERS)
def test_text_encoder_encodes_as_the_reference_does(
    overrides: dict[str, Any], compare: Compare, tmp_path: Path
) -> None:
    folder = make_tiny_checkpoint(tmp_path, text_encoder=overrides)

    compare("text encoder", "float32", text_difference(folder, dtype="float32"))


def test_text_encoder_in_bfloat16_stays_near_the_reference(compare: Compare, tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path)

    compare("text encoder", "bfloat16", text_difference(folder, dtype="bfloat16"))
