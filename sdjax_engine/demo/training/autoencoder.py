"""Trains the demo checkpoint's `AutoencoderKL` on drawn scenes.

    python -m sdjax_engine.demo.training.autoencoder OUT

Loss: L1 + squared error + L1 of the picture's differences (edges) + a tiny KL term. Pictures are drawn when
they are needed, so that no picture is used twice. The first four fifths of the steps use crops of a quarter
of the area: the fully convolutional network learns as well from them, for a quarter of the time.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL
from torch import Tensor

from sdjax_engine.demo.scenes import RESOLUTION, draw, sample_scene
from sdjax_engine.demo.training.schedule import OneCycle

KL_WEIGHT = 1e-4
EDGE_WEIGHT = 0.5
CROPPED_PART = 0.8


def build() -> AutoencoderKL:
    """Return the untrained autoencoder: 128×128×3 to 16×16×4 and back, about a million parameters."""
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(16, 32, 64, 64),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
        mid_block_add_attention=False,
        sample_size=128,
    )


def pictures(count: int, rng: np.random.Generator, *, side: int = RESOLUTION) -> Tensor:
    """Draw `count` random training scenes, or crops of them: float32 `(count, 3, side, side)` in [-1, 1]."""
    corners = rng.integers(0, RESOLUTION - side + 1, size=(count, 2))
    drawn = np.stack(
        [np.asarray(draw(sample_scene(rng), rng))[y : y + side, x : x + side] for y, x in corners.tolist()]
    )
    return torch.from_numpy(drawn).permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)


def edges(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[..., 1:] - x[..., :-1], x[..., 1:, :] - x[..., :-1, :]


def loss_of(model: AutoencoderKL, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the training loss and the plain L1 error of one batch."""
    with torch.autocast("cpu", torch.bfloat16):
        posterior = model.encode(x).latent_dist
        y = model.decode(posterior.sample()).sample
    y, mean, logvar = y.float(), posterior.mean.float(), posterior.logvar.float()
    error = (y - x).abs().mean()
    edge = sum((a - b).abs().mean() for a, b in zip(edges(y), edges(x), strict=True))
    kl = 0.5 * (mean.square() + logvar.exp() - 1.0 - logvar).mean()
    return error + (y - x).square().mean() + EDGE_WEIGHT * edge + KL_WEIGHT * kl, error


def train(*, steps: int, batch: int, rate: float, seed: int, report_every: int = 50) -> AutoencoderKL:
    """Train and return the autoencoder with `scaling_factor` set to 1 / the latents' standard deviation."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = build()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99), weight_decay=1e-4)
    schedule = OneCycle(optimiser)
    start = time.monotonic()
    for step in range(1, steps + 1):
        schedule.set(step / steps)
        side = RESOLUTION // 2 if step <= CROPPED_PART * steps else RESOLUTION
        loss, error = loss_of(model, pictures(batch, rng, side=side))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % report_every == 0:
            seconds = (time.monotonic() - start) / step
            print(
                json.dumps({"step": step, "l1": round(error.item(), 5), "s/step": round(seconds, 3)}),
                flush=True,
            )
    set_scaling_factor(model, rng)
    return model


@torch.no_grad()
def set_scaling_factor(model: AutoencoderKL, rng: np.random.Generator) -> None:
    latents = model.encode(pictures(256, rng)).latent_dist.mean
    model.register_to_config(scaling_factor=round(1.0 / latents.std().item(), 5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = train(steps=options.steps, batch=options.batch, rate=options.rate, seed=options.seed)
    model.save_pretrained(options.out / "vae")


if __name__ == "__main__":
    main()
