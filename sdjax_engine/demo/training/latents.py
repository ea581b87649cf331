"""Drawn scenes as latents, encoded once: the denoiser's training set."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL
from torch import Tensor

from sdjax_engine.demo.scenes import Scene, draw, sample_scene

BATCH = 64


@dataclass(frozen=True, kw_only=True)
class LatentScenes:
    """Training scenes and their scaled latents, float16 `(n, 4, 16, 16)`."""

    scenes: list[Scene]
    latents: Tensor

    @classmethod
    def load(cls, file: Path) -> LatentScenes:
        """Read what `save` wrote."""
        kept = torch.load(file, weights_only=False)
        return cls(scenes=kept["scenes"], latents=kept["latents"])

    def save(self, file: Path) -> None:
        """Keep the set, so that training can be taken up again."""
        torch.save({"scenes": self.scenes, "latents": self.latents}, file)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[list[Scene], Tensor]:
        chosen = rng.integers(len(self.scenes), size=count)
        return [self.scenes[i] for i in chosen], self.latents[torch.from_numpy(chosen)].float()


@torch.no_grad()
def encode_scenes(vae: AutoencoderKL, *, count: int, seed: int = 2) -> LatentScenes:
    """Draw `count` training scenes and encode them."""
    rng = np.random.default_rng(seed)
    scenes = [sample_scene(rng) for _ in range(count)]
    latents = torch.empty((count, 4, 16, 16), dtype=torch.float16)
    start = time.monotonic()
    for first in range(0, count, BATCH):
        drawn = np.stack([np.asarray(draw(scene, rng)) for scene in scenes[first : first + BATCH]])
        x = torch.from_numpy(drawn).permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)
        with torch.autocast("cpu", torch.bfloat16):
            mean = vae.encode(x).latent_dist.mean
        latents[first : first + BATCH] = (mean.float() * vae.config.scaling_factor).half()
    print(f"{count} scenes encoded in {time.monotonic() - start:.0f} s", flush=True)
    return LatentScenes(scenes=scenes, latents=latents)
