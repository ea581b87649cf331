"""A lane out of memory, and an autoencoder that overflows in its dtype."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from engines import PLAIN, TINY, like, with_own_seats
from jax.sharding import Mesh
from jax.stages import Compiled, Lowered

from sdjax_engine.compiling.compiler import Compiler, Program
from sdjax_engine.errors import DevicesFailed
from sdjax_engine.images import encode_png
from sdjax_engine.lane.device_lane import DeviceLane, Picture, why_no_picture
from sdjax_engine.lane.seat_count import open_lane
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane
from sdjax_engine.weights import load_checkpoint

UNGUIDED = like(guidance_scale=1.0, num_inference_steps=3)
SEATS = 2
SHORTAGE = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")


def lane_of(model: LoadedModel, compiler: Compiler, seats: int) -> DeviceLane:
    return DeviceLane(UNGUIDED.lane, model, seats_per_device=seats, compiler=compiler, start_pictures=False)


def paint(lane: DeviceLane, model: LoadedModel, seat: int = 0) -> Picture:
    prepared = model.prepare(dataclasses.replace(UNGUIDED, model=lane.lane.model))
    lane.admit({seat: prepared})
    lane.denoise({seat: (0, prepared.evaluations)})
    return lane.decode([seat])[seat]


def test_a_lane_needs_the_memory_of_its_seats_and_its_programs(
    device_lanes: dict[Lane, DeviceLane],
) -> None:
    guided, unguided = (
        device_lanes[lane].need for lane in (PLAIN.lane, dataclasses.replace(PLAIN.lane, guided=False))
    )
    assert guided.held > unguided.held > 0
    assert guided.working > unguided.working > 16 * 16 * 3


def test_out_of_memory_halves_the_seats_and_then_parts_of_the_model_take_turns(
    device_lanes: dict[Lane, DeviceLane], model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model.residency, "_ledger", deepcopy(model.residency._ledger))
    lane = with_own_seats(device_lanes[UNGUIDED.lane])
    lane.reset()
    before = paint(lane, model).fetch()
    more = lane.need
    assert lane.halve()
    assert (lane.seats, lane.seats_per_device) == (2, 1)
    assert lane.need.held == more.held // 2
    evicted = 0
    for seat in (0, 1, 0, 1):
        after = paint(lane, model, seat).fetch()
        assert after is not None
        assert before is not None
        assert np.abs(after.astype(int) - before.astype(int)).max() <= 1
        evicted += lane.halve()
    assert 0 < evicted < 4, "there is one seat on each device, and nothing is left to evict"


def live_arrays() -> list[jax.Array]:
    return list(jax.live_arrays())  # type: ignore[no-untyped-call]


def allocated(before: Sequence[jax.Array]) -> int:
    """Return the bytes of all arrays that did not exist before."""
    known = set(map(id, before))
    return sum(array.nbytes for array in live_arrays() if id(array) not in known)


class WatchedResidency(Residency):
    """Records at each claim the bytes allocated since its creation; it may refuse."""

    def __init__(self, mesh: Mesh, *, grants: bool = True) -> None:
        super().__init__(mesh)
        self.allocated: list[int] = []
        self.at_claim: list[bool] = []
        self.look: Callable[[], bool] = lambda: False
        self._grants = grants
        self._before = live_arrays()

    def claim(self, who: Hashable, need: Need, *, optional: bool = False) -> bool:
        self.allocated.append(allocated(self._before))
        self.at_claim.append(self.look())
        return self._grants and super().claim(who, need, optional=optional)


def test_a_lane_allocates_its_seats_only_after_their_memory_was_claimed(
    model: LoadedModel, compiler: Compiler, device_lanes: dict[Lane, DeviceLane]
) -> None:
    assert device_lanes, "its programs are there"
    compile_with = partial(lane_of, model, compiler)
    watched, before = WatchedResidency(compiler.mesh), live_arrays()
    lane = open_lane(compile_with, UNGUIDED.lane, watched, SEATS)
    assert watched.allocated == [0]
    assert allocated(before) == lane.need.held * 2


def test_empty_seats_are_allocated_after_those_before_were_freed(
    model: LoadedModel, compiler: Compiler, device_lanes: dict[Lane, DeviceLane]
) -> None:
    lane, before = with_own_seats(device_lanes[UNGUIDED.lane]), live_arrays()
    programs, held = lane._programs, []

    def empty() -> Any:
        held.append(allocated(before))
        return programs.empty()

    lane._programs = dataclasses.replace(programs, empty=cast("Program", empty))
    lane.reset()
    lane.reset()
    assert held == [0, 0]


def test_a_shortage_while_the_decoder_is_compiled_costs_no_seats(
    model: LoadedModel,
    compiler: Compiler,
    device_lanes: dict[Lane, DeviceLane],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fewer seats do not make the decoder smaller: its compilation is retried."""
    assert device_lanes, "its programs are there"
    said: list[str] = []
    other = Compiler(mesh=compiler.mesh, report=said.append)
    known = {key: made for key, made in compiler._programs.items() if "decode" not in str(key)}
    other._programs.update(known)
    compile_really, left = Lowered.compile, [SHORTAGE]

    def compile_or_fail(lowered: Lowered, *options: Any) -> Compiled:
        if left:
            raise left.pop()
        return compile_really(lowered, *options)

    monkeypatch.setattr(Lowered, "compile", compile_or_fail)
    lane = open_lane(partial(lane_of, model, other), UNGUIDED.lane, model.residency, SEATS)
    assert left == []
    assert lane.seats_per_device == SEATS
    assert [line.partition(" in ")[0] for line in said] == [
        "tiny:16x16 decode could not be compiled for want of memory: trying again",
        "compiled tiny:16x16 decode",
    ]
    assert paint(lane, model).fetch() is not None


FROM_PICTURE = like(UNGUIDED, init_image=encode_png(np.zeros((16, 16, 3), np.uint8), UNGUIDED), strength=0.5)


def test_an_image_that_starts_from_a_picture_is_never_painted_from_noise_instead(
    model: LoadedModel, compiler: Compiler, device_lanes: dict[Lane, DeviceLane]
) -> None:
    assert device_lanes, "its programs are there"
    lane = lane_of(model, compiler, SEATS)
    lane.reset()
    with pytest.raises(DevicesFailed, match="cannot start from pictures"):
        lane.admit({0: model.prepare(FROM_PICTURE)})


@pytest.mark.parametrize("grants", [True, False])
def test_a_lane_starts_from_pictures_only_once_memory_for_it_was_claimed(
    grants: bool,
    model: LoadedModel,
    compiler: Compiler,
    device_lanes: dict[Lane, DeviceLane],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert device_lanes, "its programs are there"
    watched = WatchedResidency(compiler.mesh, grants=grants)
    monkeypatch.setattr(model, "residency", watched)
    lane = lane_of(model, compiler, SEATS)
    watched.look = lambda: lane.starts_from_pictures
    with nullcontext() if grants else pytest.raises(DevicesFailed, match="no memory for start pictures"):
        lane.prepare_pictures()
    assert watched.at_claim == [False]
    assert lane.starts_from_pictures is grants


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
def test_out_of_memory_errors_are_recognised(error: Exception, expected: bool) -> None:
    assert devices.is_out_of_memory(error) is expected


@pytest.fixture(scope="module")
def half_blind(checkpoint: Path, compiler: Compiler) -> LoadedModel:
    """The model with an autoencoder in bfloat16, whose largest number is a little less than float32's.

    The values of its pictures are between the two largest numbers: the last layer adds its bias, the largest
    number of bfloat16, to 1e36, which is more than half of the next step.
    """
    whole, half = (load_checkpoint(str(checkpoint), dtype=dtype) for dtype in ("float32", "bfloat16"))
    parameters = dict(half.components["vae"].parameters)
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
    vae = dataclasses.replace(half.components["vae"], parameters=parameters)
    return LoadedModel(
        TINY,
        dataclasses.replace(whole, components={**whole.components, "vae": vae}),
        compiler,
        residency=Residency(compiler.mesh),
    )


def test_a_picture_beyond_bfloat16_is_decoded_again_in_float32(
    half_blind: LoadedModel, compiler: Compiler
) -> None:
    lane = DeviceLane(UNGUIDED.lane, half_blind, seats_per_device=2, compiler=compiler, start_pictures=False)
    assert not lane.retries
    lane.prepare_retry()
    assert lane.retries
    lane.reset()
    picture = paint(lane, half_blind)
    assert picture.fetch() is None
    again = lane.decode_again(picture.fetch_latents())
    assert again is not None
    pixels = again.fetch()
    assert pixels is not None
    assert (pixels == 255).all()
    assert "decoder" in why_no_picture(picture.fetch_latents())


def test_an_autoencoder_in_float32_is_not_tried_again(device_lanes: dict[Lane, DeviceLane]) -> None:
    lane = with_own_seats(device_lanes[UNGUIDED.lane])
    lane.prepare_retry()
    assert not lane.retries
    assert lane.decode_again(np.zeros((8, 8, 4), np.float32)) is None


def test_nan_from_the_steps_is_distinguished_from_nan_of_the_decoder() -> None:
    latents = np.zeros((2, 2, 4), np.float32)
    latents[0, 0, 0] = np.nan
    assert "steps" in why_no_picture(latents)
