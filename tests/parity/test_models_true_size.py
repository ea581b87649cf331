"""SD 1.5 in its true size against the reference on torch, with random weights.

The pictures are small: only errors that grow with the networks are not visible in small checkpoints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
import transformers
from networks import Filled, channels_first, noise, relative_difference

from sdjax_engine.models.autoencoders import AutoencoderKL
from sdjax_engine.models.clip import CLIPTextModel
from sdjax_engine.models.unet import UNet2DConditionModel

pytestmark = [pytest.mark.parity, pytest.mark.slow]

BOUND = 1e-4
PAGE = 4096  # numbers; weights begin at multiples of it, so that JAX uses them without a copy
UNET: dict[str, Any] = {"cross_attention_dim": 768}
VAE: dict[str, Any] = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
    "latent_channels": 4,
}
TEXT_ENCODER: dict[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
}


def cheaply_random(build: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """Build a network without its slow initialisation, and fill it with slices of noise arrays.

    Weights of equal centre and scale are slices of one array, with the axes in our network's order, so that
    neither network copies them.
    """
    with torch.device("meta"):
        network = build()
    network = network.to_empty(device="cpu").eval()
    alike: dict[tuple[float, float], list[torch.nn.Parameter]] = defaultdict(list)
    for name, parameter in network.named_parameters():
        centre = 1.0 if parameter.ndim == 1 and not name.endswith("bias") else 0.0
        scale = 0.1 if parameter.ndim == 1 else parameter[0].numel() ** -0.5
        alike[centre, scale].append(parameter)
    chance = torch.Generator().manual_seed(0)
    for (centre, scale), parameters in alike.items():
        largest = max(parameter.numel() for parameter in parameters)
        source = torch.empty(largest + PAGE * len(parameters)).normal_(centre, scale, generator=chance)
        for index, parameter in enumerate(parameters):
            piece = source[PAGE * index :][: parameter.numel()]
            parameter.data = piece.view(ours_of(parameter.shape)).permute(*order_of(parameter.ndim))
    return network


def order_of(axes: int) -> tuple[int, ...]:
    """The permutation from our axes (window, in, out) to the reference's (out, in, window)."""
    return (axes - 1, axes - 2, *range(axes - 2)) if axes > 1 else (0,)


def ours_of(shape: torch.Size) -> tuple[int, ...]:
    """The shape that ours has for a reference's weight of this shape."""
    return (*shape[2:], *reversed(shape[:2]))


def test_unet() -> None:
    unet = cheaply_random(lambda: diffusers.UNet2DConditionModel(**UNET))
    assert sum(parameter.numel() for parameter in unet.parameters()) == 859_520_964
    sample, context = noise(1, 8, 8, 4), noise(1, 77, 768, seed=1)
    timesteps = np.array([981.0], np.float32)
    with torch.no_grad():
        theirs = unet(channels_first(sample), torch.from_numpy(timesteps), torch.from_numpy(context)).sample

    ours = Filled(UNet2DConditionModel, UNET, unet, take=True)(sample, timesteps, context)

    difference = relative_difference(ours, theirs)
    print(f"\nUNet of SD 1.5: {difference:.1e}")
    assert difference <= BOUND


def test_vae() -> None:
    vae = cheaply_random(lambda: diffusers.AutoencoderKL(**VAE))
    latents, pixels = noise(1, 8, 8, 4), np.tanh(noise(1, 64, 64, 3))
    with torch.no_grad():
        decoded = vae.decode(channels_first(latents)).sample
        encoded = vae.encode(channels_first(pixels)).latent_dist.mean
    ours = Filled(AutoencoderKL, VAE, vae, take=True)

    differences = [
        relative_difference(ours(latents, call=lambda model, x: model.decode(x)), decoded),
        relative_difference(ours(pixels, call=lambda model, x: model.encode(x)[0]), encoded),
    ]

    print(f"\nVAE of SD 1.5: decoding {differences[0]:.1e}, encoding {differences[1]:.1e}")
    assert max(differences) <= BOUND


def test_text_encoder() -> None:
    config = transformers.CLIPTextConfig(**TEXT_ENCODER)
    encoder = cheaply_random(lambda: transformers.CLIPTextModel(config))
    encoder.embeddings.position_ids = torch.arange(77)[None]  # a buffer, uninitialised like the weights
    ids = np.array([[49406, *range(320, 330), *[49407] * 66]], np.int32)
    with torch.no_grad():
        theirs = encoder(torch.from_numpy(ids).long())
    encoding = Filled(CLIPTextModel, TEXT_ENCODER, encoder, take=True)(ids)

    differences = [
        relative_difference(encoding.hidden, theirs.last_hidden_state),
        relative_difference(encoding.pooled, theirs.pooler_output),
    ]

    print(f"\ntext encoder of SD 1.5: hidden {differences[0]:.1e}, pooled {differences[1]:.1e}")
    assert max(differences) <= BOUND
