"""What a lane does when memory is short, or when its autoencoder's number format is not enough."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from engines import PLAIN, TINY, like

from sdjax_engine import devices
from sdjax_engine.lanes import DeviceLane, Picture, why_no_picture
from sdjax_engine.loaded import LoadedModel
from sdjax_engine.programs import Compiler
from sdjax_engine.request import Lane
from sdjax_engine.residency import Residency
from sdjax_engine.weights import load_checkpoint

UNGUIDED = like(guidance_scale=1.0, num_inference_steps=3)


def paint(lane: DeviceLane, model: LoadedModel, seat: int = 0) -> Picture:
    lane.bring()
    prepared = model.prepare(dataclasses.replace(UNGUIDED, model=lane.lane.model))
    lane.admit({seat: prepared})
    lane.denoise({seat: (0, prepared.evaluations)})
    return lane.decode([seat])[seat]


def test_a_lane_needs_what_its_seats_hold_and_its_programs_ask_for(
    device_lanes: dict[Lane, DeviceLane],
) -> None:
    guided, unguided = (
        device_lanes[lane].need for lane in (PLAIN.lane, dataclasses.replace(PLAIN.lane, guided=False))
    )
    assert guided.held > unguided.held > 0
    assert guided.working > unguided.working > 16 * 16 * 3


def test_out_of_memory_halves_the_seats_and_painting_goes_on(
    device_lanes: dict[Lane, DeviceLane], model: LoadedModel
) -> None:
    lane = copy.copy(device_lanes[UNGUIDED.lane])
    lane.reset()
    before = paint(lane, model).fetch()
    more = lane.need
    assert lane.halve()
    assert (lane.seats, lane.seats_per_device) == (2, 1)
    assert lane.need.held == more.held // 2
    for seat in range(2):
        after = paint(lane, model, seat).fetch()
        assert after is not None
        assert before is not None
        assert np.abs(after.astype(int) - before.astype(int)).max() <= 1
    assert not lane.halve(), "there is one seat on each device, and no other model"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes."), True),
        (jax.errors.JaxRuntimeError("INTERNAL: CUDA_ERROR_OUT_OF_MEMORY: out of memory"), True),
        (MemoryError(), True),
        (jax.errors.JaxRuntimeError("INTERNAL: lost a device"), False),
        (RuntimeError("out of memory"), False),
    ],
)
def test_which_errors_say_that_memory_is_short(error: Exception, expected: bool) -> None:
    assert devices.is_out_of_memory(error) is expected


@pytest.fixture(scope="module")
def half_blind(checkpoint: Path, compiler: Compiler) -> LoadedModel:
    """The model with an autoencoder in bfloat16, whose largest number is a little less than float32's.

    Its pictures come to a number between the two: their last layer sees 1 everywhere, to which it adds the
    largest number of bfloat16 and more than half of the step to the next, were there one.
    """
    whole, half = (load_checkpoint(str(checkpoint), dtype=dtype) for dtype in ("float32", "bfloat16"))
    parameters = dict(half.vae.parameters)
    largest = float(jnp.finfo(jnp.bfloat16).max)

    def fill(name: str, value: float | npt.NDArray[Any]) -> None:
        key = f"decoder.{name}"
        like_it = parameters[key]
        parameters[key] = jnp.broadcast_to(jnp.asarray(value, like_it.dtype), like_it.shape)

    fill("conv_norm_out.scale", 0.0)
    fill("conv_norm_out.bias", 1.0)
    fill("conv_out.bias", largest)
    center = np.zeros(parameters["decoder.conv_out.kernel"].shape, np.float32)
    center[1, 1] = 1e36 / center.shape[2] / float(jax.nn.silu(1.0))
    fill("conv_out.kernel", center)
    vae = dataclasses.replace(half.vae, parameters=parameters)
    return LoadedModel(
        TINY, dataclasses.replace(whole, vae=vae), compiler, residency=Residency(compiler.mesh)
    )


def test_a_picture_beyond_bfloat16_is_decoded_again_in_float32(
    half_blind: LoadedModel, compiler: Compiler
) -> None:
    lane = DeviceLane(UNGUIDED.lane, half_blind, seats_per_device=2, compiler=compiler, start_pictures=False)
    assert not lane.retries
    lane.prepare_retry()
    assert lane.retries
    picture = paint(lane, half_blind)
    assert picture.fetch() is None
    again = lane.decode_again(picture.fetch_latents())
    assert again is not None
    pixels = again.fetch()
    assert pixels is not None
    assert (pixels == 255).all()
    assert "decoder" in why_no_picture(picture.fetch_latents())


def test_an_autoencoder_in_float32_is_not_tried_again(device_lanes: dict[Lane, DeviceLane]) -> None:
    lane = copy.copy(device_lanes[UNGUIDED.lane])
    lane.prepare_retry()
    assert not lane.retries
    assert lane.decode_again(np.zeros((8, 8, 4), np.float32)) is None


def test_steps_that_made_no_numbers_are_told_from_a_decoder_that_did() -> None:
    latents = np.zeros((2, 2, 4), np.float32)
    latents[0, 0, 0] = np.nan
    assert "steps" in why_no_picture(latents)
