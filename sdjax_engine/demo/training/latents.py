"""The denoiser's training set: drawn scenes as latents, encoded once."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from diffusers import AutoencoderKL
from torch import Tensor

from sdjax_engine.demo.scenes import Scene, draw, sample_scene

BATCH = 64
LATENT_SIDE = 16
THINGS_PART = 0.75


@dataclass(frozen=True, kw_only=True)
class LatentScenes:
    """Training scenes and their scaled latents, float16 `(n, 4, 16, 16)`."""

    scenes: list[Scene]
    latents: Tensor

    @classmethod
    def load(cls, file: Path) -> LatentScenes:
        """Read a file that `save` wrote."""
        stored = torch.load(file, weights_only=False)
        return cls(scenes=stored["scenes"], latents=stored["latents"])

    def save(self, file: Path) -> None:
        """Write the set to a file, so that a training can be resumed."""
        torch.save({"scenes": self.scenes, "latents": self.latents}, file)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[list[Scene], Tensor, Tensor]:
        """Return random scenes, their latents, and the weight of each latent pixel, `(count, 1, 16, 16)`."""
        chosen = rng.integers(len(self.scenes), size=count)
        scenes = [self.scenes[i] for i in chosen]
        weights = torch.from_numpy(np.stack([emphasis(scene) for scene in scenes]))[:, None]
        return scenes, self.latents[torch.from_numpy(chosen)].float(), weights


def emphasis(scene: Scene) -> npt.NDArray[np.float32]:
    """Return weights of the squared error, mean 1: three quarters for the things, however small they are.

    The optimum at a place does not depend on its weight; the weights make small things learn sooner.
    """
    centres = (np.arange(LATENT_SIDE) + 0.5) / LATENT_SIDE
    things = np.zeros((LATENT_SIDE, LATENT_SIDE), bool)
    for (x, y), radius in zip(scene.places, scene.radii, strict=True):
        things |= np.hypot(centres[None, :] - x, centres[:, None] - y) < 1.15 * radius + 0.05
    part = things.mean()
    return np.where(things, THINGS_PART / part, (1 - THINGS_PART) / (1 - part)).astype(np.float32)


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
