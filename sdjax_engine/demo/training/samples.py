"""What an unfinished denoiser paints, to look at."""

from __future__ import annotations

from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline

from sdjax_engine.images import make_grid
from sdjax_engine.prompts import clean

PROMPTS = (
    "a cat",
    "a red heart left of a blue star",
    "a large rocket at night",
    "two pizzas on a green background",
    "a fox between a tree and a house on a meadow",
    "a guitar, pencil sketch",
    "해변의 펭귄",
    "一只熊猫，像素画",
    "حوت تحت الماء",
    "a robot above an umbrella, blueprint",
    "a small car left of a large banana on a pink background",
    "a blue cat and a red umbrella at sunset",
)
STEPS, GUIDANCE = 15, 2.5


def write_samples(pipeline: StableDiffusionPipeline, folder: Path, step: int) -> None:
    """Paint the prompts, each with its own seed, into one file named for the step."""
    folder.mkdir(parents=True, exist_ok=True)
    pipeline.set_progress_bar_config(disable=True)
    pictures = pipeline(
        [clean(prompt) for prompt in PROMPTS],
        num_inference_steps=STEPS,
        guidance_scale=GUIDANCE,
        generator=[torch.Generator().manual_seed(seed) for seed in range(len(PROMPTS))],
    ).images
    make_grid(pictures, 3, 4).save(folder / f"denoiser-{step:06}.png")
