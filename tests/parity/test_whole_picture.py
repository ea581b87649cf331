"""The finished picture against the reference's pipeline: same checkpoint, same first noise, every sampler.

Ours is painted by the engine's own programs, in a lane whose seats hold all samplers at once; the
reference paints one after the other. The networks are as small as they can be: `test_models.py` compares
whole ones. Differences are the largest of any value of the picture on the scale from 0 to 1, before it is
rounded to whole numbers. Run with `-s` to see the figures.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
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
from engines import SMALLEST, SUITED
from pictures import LanePainter, as_latents
from sampler_reference import BrownianMotion

from sdjax_engine.denoising import noise
from sdjax_engine.request import WHOLE, Offer, Request, Sampler
from sdjax_engine.samplers import SAMPLERS

pytestmark = [
    pytest.mark.parity,
    # The reference converts torch tensors by NumPy 2, which warns about torch's `__array__`.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
]

STEPS = 20
WIDTH, HEIGHT = 8, 16
LATENTS = (8, 4, 4)
TOLERANCE = 2e-3
GUIDANCE = 5.0
NOWHERE = (0.0, 0.0)
"""The interval of pictures without guidance, which are of a lane of their own."""
PAINTED = [
    *((sampler, WHOLE) for sampler in SUITED),
    *(
        (sampler, NOWHERE)
        for sampler in (Sampler.DDIM, Sampler.PNDM, Sampler.EULER_ANCESTRAL, Sampler.DPMPP_2M)
    ),
    (Sampler.DDIM, (0.0, 0.6)),
    (Sampler.PNDM, (0.25, 0.8)),
    (Sampler.HEUN, (0.3, 1.0)),
]
"""Samplers and intervals of guidance; few pairs suffice, since an interval acts alike in all samplers."""
Interval = tuple[float, float]
Pictures = dict[tuple[Sampler, Interval], npt.NDArray[np.float32]]


def request_for(sampler: Sampler, interval: Interval) -> Request:
    return Request(
        prompt="a red circle on a white background",
        negative_prompt="a blue star",
        seed=list(Sampler).index(sampler),
        num_inference_steps=STEPS,
        guidance_scale=1.0 if interval == NOWHERE else GUIDANCE,
        guidance_interval=WHOLE if interval == NOWHERE else interval,
        sampler=sampler,
        height=HEIGHT,
        width=WIDTH,
        model="tiny",
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny", **SMALLEST)


@pytest.fixture(scope="module")
def ours(checkpoint: Path) -> Pictures:
    """Pictures (height, width, 3) from 0 to 1, before rounding."""
    offer = Offer(
        model="tiny",
        sizes=((WIDTH, HEIGHT),),
        num_inference_steps=STEPS,
        guidance_scale=5.0,
        sampler=Sampler.DDIM,
    )
    painter = LanePainter(checkpoint, offer)
    pictures: Pictures = {}
    for guided in (True, False):
        those = [each for each in PAINTED if (each[1] != NOWHERE) is guided]
        pictures |= zip(those, painter.paint([request_for(*each) for each in those]), strict=True)
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


def switching(pipeline: StableDiffusionPipeline, request: Request) -> Callable[..., dict[str, Any]]:
    """The reference's recipe for dynamic guidance: a callback after each evaluation prepares the next."""
    told = {"device": "cpu", "num_images_per_prompt": 1, "do_classifier_free_guidance": True}
    prompt, negative = pipeline.encode_prompt(request.prompt, negative_prompt=request.negative_prompt, **told)

    def after(pipeline: Any, index: int, _timestep: object, tensors: dict[str, Any]) -> dict[str, Any]:
        first, end = (int(share * pipeline.num_timesteps) for share in request.guidance_interval)
        guided = first <= index + 1 < end
        pipeline._guidance_scale = GUIDANCE if guided else 0.0
        return tensors | {"prompt_embeds": torch.cat([negative, prompt]) if guided else prompt}

    return after


@pytest.mark.parametrize(("sampler", "interval"), PAINTED)
def test_the_picture_is_the_references(
    *,
    sampler: Sampler,
    interval: Interval,
    ours: Pictures,
    pipeline: StableDiffusionPipeline,
    config: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = request_for(sampler, interval)
    callback = {}
    if interval not in (NOWHERE, WHOLE):
        callback = {"callback_on_step_end": switching(pipeline, request)}
        callback |= {"callback_on_step_end_tensor_inputs": ["prompt_embeds"]}
    pipeline.scheduler = reference_scheduler(sampler, config)
    feed_noise(monkeypatch, pipeline.scheduler, request)
    theirs = pipeline(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        num_inference_steps=STEPS,
        guidance_scale=1.0 if interval[0] > 0 else request.guidance_scale,
        height=request.height,
        width=request.width,
        latents=as_latents(noise.initial_noise(jnp.uint32(request.seed), LATENTS)),
        eta=0.3 if sampler is Sampler.TCD else 0.0,
        output_type="np",
        **callback,
    ).images[0]
    difference = float(np.abs(ours[sampler, interval] - theirs).max())
    print(f"\n{sampler} guided in {interval}: {difference:.1e}")
    assert difference <= TOLERANCE


def reference_scheduler(sampler: Sampler, config: dict[str, Any]) -> Any:
    ours = SAMPLERS[sampler]
    settings = {key: ours.model_fields[key].default for key in ours.named}
    if "clip_sample" in ours.model_fields:  # a pipeline that is built with it switches it off
        settings["clip_sample"] = False
    return getattr(diffusers, ours.reference).from_config(config, **settings)


def test_the_first_noise_is_the_removed_flax_pipelines() -> None:
    """One key for the image, drawn as (batch, channels, height, width)."""
    theirs = jax.random.normal(jax.random.PRNGKey(7), (1, 4, 8, 6), jnp.float32)
    ours = noise.initial_noise(jnp.uint32(7), (8, 6, 4))
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs)[0].transpose(1, 2, 0))
