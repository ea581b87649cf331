"""Finished pictures of Z-Image against the reference's pipelines: same checkpoint, same noise, raw prompts.

Differences are the largest of any value on the scale from 0 to 1, in float32. Run with `-s` to see the
figures.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import PIL.Image
import pytest
import torch
from diffusers import ZImageImg2ImgPipeline, ZImageInpaintPipeline, ZImagePipeline
from engines import file_of, like
from pictures import LanePainter, Pixels, as_latents
from z_image_files import make_tiny_z_image

from sdjax_engine.denoising.noise import OF_START_PICTURE, fresh_noise, initial_noise
from sdjax_engine.request import Offer, Request, Sampler

pytestmark = pytest.mark.parity

WIDTH, HEIGHT, STEPS = 48, 80, 5
TOLERANCE = 4e-3
ROWS, COLUMNS = np.mgrid[0:HEIGHT, 0:WIDTH]
START = np.stack([ROWS * 3 % 256, COLUMNS * 5 % 256, (ROWS + 2 * COLUMNS) % 256], axis=-1).astype(np.uint8)
MASK = np.where((ROWS >= 13) & (ROWS < 43) & (COLUMNS >= 5), 255, 0).astype(np.uint8)
RAW = " a red (circle:1.3)\n\n on  the white [square] &amp; ☃ "
PLAIN = like(
    prompt=RAW,
    negative_prompt="a  blue\tstar",
    seed=11,
    num_inference_steps=STEPS,
    guidance_scale=3.5,
    sampler=Sampler.FLOW_EULER,
    height=HEIGHT,
    width=WIDTH,
)
UNGUIDED = like(PLAIN, guidance_scale=0.0)
FROM_PICTURE = like(PLAIN, init_image=file_of(START), strength=0.55)
INPAINTED = like(FROM_PICTURE, mask_image=file_of(MASK), strength=0.9)
BY_SIZE = {"use_dynamic_shifting": True, "base_shift": 0.9, "max_shift": 2.5}
Reference = Callable[..., Pixels]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_z_image(tmp_path_factory.mktemp("z"), scheduler=BY_SIZE)


@pytest.fixture(scope="module")
def painter(checkpoint: Path) -> LanePainter:
    offer = Offer(
        model="tiny",
        sizes=((WIDTH, HEIGHT),),
        num_inference_steps=STEPS,
        guidance_scale=3.5,
        sampler=Sampler.FLOW_EULER,
    )
    return LanePainter(checkpoint, offer)


@pytest.fixture
def reference(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Reference:
    """Paints a request with a pipeline of the reference and our noise."""

    def paint(kind: Any, request: Request, **further: Any) -> Pixels:
        shape = HEIGHT // 8, WIDTH // 8, 16
        seed = jnp.uint32(request.seed)

        def of_the_picture(*_shape: Any, **_how: Any) -> torch.Tensor:
            return as_latents(fresh_noise(seed, jnp.uint32(OF_START_PICTURE), shape))

        def of_the_painting(*_shape: Any, **_how: Any) -> torch.Tensor:
            return as_latents(initial_noise(seed, shape))

        vae = importlib.import_module("diffusers.models.autoencoders.vae")
        monkeypatch.setattr(vae, "randn_tensor", of_the_picture)
        monkeypatch.setattr(importlib.import_module(kind.__module__), "randn_tensor", of_the_painting)
        pipeline = kind.from_pretrained(checkpoint)
        pipeline.set_progress_bar_config(disable=True)
        painted: Pixels = pipeline(
            prompt=request.prompt,
            negative_prompt=request.negative_prompt,
            num_inference_steps=request.num_inference_steps,
            guidance_scale=request.guidance_scale,
            height=request.height,
            width=request.width,
            output_type="np",
            **further,
        ).images[0]
        return painted

    return paint


def from_picture(request: Request) -> dict[str, Any]:
    return {"image": PIL.Image.fromarray(START), "strength": request.strength}


def difference(ours: Pixels, theirs: Pixels) -> float:
    found = float(np.abs(ours - theirs).max())
    print(f"\n{found:.1e}")
    return found


@pytest.mark.parametrize("asked", [PLAIN, UNGUIDED], ids=["guided", "unguided"])
def test_a_picture_of_a_raw_prompt_is_the_references(
    asked: Request, painter: LanePainter, reference: Reference
) -> None:
    [ours] = painter.paint([asked])
    assert difference(ours, reference(ZImagePipeline, asked)) <= TOLERANCE


def test_a_scale_that_replaces_the_prompts_output_is_noticed(
    painter: LanePainter, reference: Reference
) -> None:
    [ours] = painter.paint([like(PLAIN, guidance_scale=PLAIN.guidance_scale - 1)])
    assert difference(ours, reference(ZImagePipeline, PLAIN)) > 2 * TOLERANCE


def test_a_picture_from_a_picture_is_the_references(painter: LanePainter, reference: Reference) -> None:
    [ours] = painter.paint([FROM_PICTURE])
    theirs = reference(ZImageImg2ImgPipeline, FROM_PICTURE, **from_picture(FROM_PICTURE))
    assert difference(ours, theirs) <= TOLERANCE


def test_inpainting_is_the_references(painter: LanePainter, reference: Reference) -> None:
    [ours] = painter.paint([INPAINTED])
    further = {"mask_image": PIL.Image.fromarray(MASK), **from_picture(INPAINTED)}
    assert difference(ours, reference(ZImageInpaintPipeline, INPAINTED, **further)) <= TOLERANCE
