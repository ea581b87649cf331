"""The colours of previews: the linear map from the latents of the trained autoencoder to mean colours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL

from sdjax_engine.demo.drawing import Sprites, draw
from sdjax_engine.demo.scenes import sample_scene
from sdjax_engine.demo.training.autoencoder import FACTOR, tensor_of

PICTURES = 64


@torch.no_grad()
def fitted_colours(vae: AutoencoderKL, sprites: Sprites) -> list[list[float]]:
    """Return red, green and blue of each channel and, last, of zero latents, from -1 to 1."""
    rng = np.random.default_rng(2)
    drawn = tensor_of([draw(sample_scene(rng), sprites, rng) for _ in range(PICTURES)])
    pixels = drawn.permute(0, 3, 1, 2) / 127.5 - 1
    means = torch.nn.functional.avg_pool2d(pixels, FACTOR)
    encoded = torch.cat([vae.encode(each).latent_dist.mean for each in pixels.split(8)])
    latents = (encoded * vae.config.scaling_factor).permute(0, 2, 3, 1).flatten(0, 2)
    known = torch.cat([latents, torch.ones(len(latents), 1)], 1)
    fitted = torch.linalg.lstsq(known, means.permute(0, 2, 3, 1).flatten(0, 2)).solution
    return [[round(each, 3) for each in row] for row in fitted.tolist()]


def colours_in(state: Path) -> list[list[float]]:
    """Return the map of the autoencoder that a training left in `state`."""
    vae = AutoencoderKL.from_pretrained(state / "checkpoint" / "vae").eval()
    return fitted_colours(vae, Sprites(state / "sprites"))
