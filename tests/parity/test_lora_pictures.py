"""Finished pictures of SDXL with LoRAs against the reference's pipeline, in float32, after few steps.

All are painted in one batch, each with its own LoRAs. Differences are the largest of any
value on the scale from 0 to 1. Run with `-s` to see the figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from checkpoints import FAMILIES, make_tiny_checkpoint
from diffusers import DiffusionPipeline
from engines import like
from lora_files import every_layer, linear_layers, random_factors, write_kohya, write_peft
from pictures import LanePainter, as_latents

from sdjax_engine.denoising.noise import initial_noise
from sdjax_engine.request import Lora, Offer, Request
from sdjax_engine.samplers import default_sampler
from sdjax_engine.weights.files import read_json

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Already found a `peft_config` attribute"),
]

WIDTH, HEIGHT, STEPS, TOLERANCE = 48, 64, 8, 2e-3
CASES: tuple[dict[str, float], ...] = (
    {},
    {"locon": 1.0},
    {"kohya": 0.7, "peft": -0.4},
)


def lora_files(pipeline: Any, folder: Path) -> dict[str, Path]:
    """A LoCon with the original code's names of blocks, a LoRA with the reference's, and one of peft."""
    every = random_factors(pipeline, every_layer, rank=4, seed=1)
    linear = random_factors(pipeline, linear_layers, rank=2, seed=2)
    return {
        "locon": write_kohya(folder / "locon.safetensors", every, alpha=1.0, original=True),
        "kohya": write_kohya(folder / "kohya.safetensors", linear, alpha=1.0),
        "peft": write_peft(folder / "peft", pipeline, seed=3),
    }


def test_pictures_with_loras_are_the_references(tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path / "checkpoint", **FAMILIES["SDXL"])
    pipeline = DiffusionPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    files = lora_files(pipeline, tmp_path)
    offer = Offer(
        model="tiny",
        sizes=((WIDTH, HEIGHT),),
        num_inference_steps=STEPS,
        guidance_scale=5.0,
        sampler=default_sampler(read_json(folder / "scheduler" / "scheduler_config.json")),
        prompt_chunks=1,
        loras=tuple(files),
    )
    requests = [request_for(offer, loras) for loras in CASES]
    ours = LanePainter(folder, offer, loras=files).paint(requests)
    theirs = [reference_picture(pipeline, files, request) for request in requests]
    for loras, one, other in zip(CASES, ours, theirs, strict=True):
        found = difference(one, other)
        print(f"\n{loras}: {found:.1e} (without them {difference(theirs[0], other):.1e})")
        assert found <= TOLERANCE
        assert not loras or difference(theirs[0], other) > 0.1


def request_for(offer: Offer, loras: dict[str, float]) -> Request:
    return like(
        prompt="a red circle",
        negative_prompt="a blue star",
        sampler=offer.sampler,
        num_inference_steps=STEPS,
        height=HEIGHT,
        width=WIDTH,
        loras=tuple(Lora(name=name, weight=weight) for name, weight in loras.items()),
    )


def reference_picture(pipeline: Any, files: dict[str, Path], request: Request) -> npt.NDArray[np.float32]:
    for lora in request.loras:
        pipeline.load_lora_weights(files[lora.name], adapter_name=lora.name)
    if request.loras:
        pipeline.set_adapters([lora.name for lora in request.loras], [lora.weight for lora in request.loras])
    noise = initial_noise(jnp.uint32(request.seed), (HEIGHT // 8, WIDTH // 8, 4))
    picture: npt.NDArray[np.float32] = pipeline(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        num_inference_steps=STEPS,
        guidance_scale=request.guidance_scale,
        height=HEIGHT,
        width=WIDTH,
        latents=as_latents(noise),
        output_type="np",
    ).images[0]
    pipeline.unload_lora_weights()
    return picture


def difference(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> float:
    return float(np.abs(one - other).max())
