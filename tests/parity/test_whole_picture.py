"""The finished picture against the reference's pipeline: same checkpoint, same first noise, every sampler.

Ours is painted by the engine's own programs, in a lane whose seats hold all samplers at once; the
reference paints one after the other. Differences are the largest of any value of the picture on the
scale from 0 to 1, before it is rounded to whole numbers. Run with `-s` to see the figures.
"""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import diffusers
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import make_tiny_checkpoint
from diffusers import StableDiffusionPipeline
from engines import SUITED
from pictures import LanePainter, as_latents
from sampler_reference import BrownianMotion

from sdjax_engine.denoising import noise
from sdjax_engine.request import Offer, Request, Sampler
from sdjax_engine.samplers import SAMPLERS

pytestmark = [
    pytest.mark.parity,
    # The reference hands torch tensors to NumPy 2, which tells torch so.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
]

STEPS = 20
LATENTS = (8, 6, 4)
TOLERANCE = 2e-3
PAINTED = [
    *((sampler, True) for sampler in SUITED),
    *(
        (sampler, False)
        for sampler in (Sampler.DDIM, Sampler.PNDM, Sampler.EULER_ANCESTRAL, Sampler.DPMPP_2M)
    ),
]
"""Samplers, and whether guidance is on: whether it is not depends on no sampler."""
Pictures = dict[tuple[Sampler, bool], npt.NDArray[np.float32]]


def request_for(sampler: Sampler, *, guided: bool) -> Request:
    return Request(
        prompt="a red circle on a white background",
        negative_prompt="a blue star",
        seed=list(Sampler).index(sampler),
        num_inference_steps=STEPS,
        guidance_scale=5.0 if guided else 1.0,
        sampler=sampler,
        height=64,
        width=48,
        model="tiny",
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="module")
def ours(checkpoint: Path) -> Pictures:
    """Pictures (height, width, 3) from 0 to 1, before rounding."""
    offer = Offer(
        model="tiny", sizes=((48, 64),), num_inference_steps=STEPS, guidance_scale=5.0, sampler=Sampler.DDIM
    )
    painter = LanePainter(checkpoint, offer)
    pictures: Pictures = {}
    for guided in (True, False):
        requests = [request_for(sampler, guided=each) for sampler, each in PAINTED if each is guided]
        for request, picture in zip(requests, painter.paint(requests), strict=True):
            pictures[request.sampler, guided] = picture
    return pictures


@pytest.fixture(scope="module")
def pipeline(checkpoint: Path) -> StableDiffusionPipeline:
    pipeline = StableDiffusionPipeline.from_pretrained(checkpoint, safety_checker=None)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@pytest.fixture(scope="module")
def config(pipeline: StableDiffusionPipeline) -> dict[str, Any]:
    """The scheduler config that the pipeline has made of the checkpoint's."""
    return dict(pipeline.scheduler.config)


def feed_noise(monkeypatch: pytest.MonkeyPatch, scheduler: Any, request: Request) -> None:
    """Let the reference's scheduler draw our noise, one for each evaluation."""
    drawn = (
        as_latents(noise.fresh_noise(jnp.uint32(request.seed), jnp.int32(index), LATENTS)).numpy()
        for index in itertools.count()
    )
    module = importlib.import_module(type(scheduler).__module__)
    monkeypatch.setattr(
        module, "randn_tensor", lambda _shape, **_ignored: torch.from_numpy(next(drawn)), raising=False
    )
    motion = BrownianMotion(each[0] for each in drawn)
    monkeypatch.setattr(module, "BrownianTreeNoiseSampler", lambda *_ignored: motion, raising=False)


@pytest.mark.parametrize(("sampler", "guided"), PAINTED)
def test_the_picture_is_the_references(
    *,
    sampler: Sampler,
    guided: bool,
    ours: Pictures,
    pipeline: StableDiffusionPipeline,
    config: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = request_for(sampler, guided=guided)
    pipeline.scheduler = reference_scheduler(sampler, config)
    feed_noise(monkeypatch, pipeline.scheduler, request)
    theirs = pipeline(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        num_inference_steps=STEPS,
        guidance_scale=request.guidance_scale,
        height=request.height,
        width=request.width,
        latents=as_latents(noise.initial_noise(jnp.uint32(request.seed), LATENTS)),
        eta=0.3 if sampler is Sampler.TCD else 0.0,
        output_type="np",
    ).images[0]
    difference = float(np.abs(ours[sampler, guided] - theirs).max())
    print(f"\n{sampler} {'guided' if guided else 'unguided'}: {difference:.1e}")
    assert difference <= TOLERANCE


def reference_scheduler(sampler: Sampler, config: dict[str, Any]) -> Any:
    ours = SAMPLERS[sampler]
    settings = {key: ours.model_fields[key].default for key in ours.named}
    if "clip_sample" in ours.model_fields:  # which the pipeline itself switches off where it is built with it
        settings["clip_sample"] = False
    return getattr(diffusers, ours.reference).from_config(config, **settings)


def test_the_first_noise_is_the_removed_flax_pipelines() -> None:
    """One key for the image, drawn as (batch, channels, height, width)."""
    theirs = jax.random.normal(jax.random.PRNGKey(7), (1, 4, 8, 6), jnp.float32)
    ours = noise.initial_noise(jnp.uint32(7), (8, 6, 4))
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs)[0].transpose(1, 2, 0))
