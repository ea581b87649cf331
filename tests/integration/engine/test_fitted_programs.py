"""Programs that fit their runs: a row for each text that is evaluated; other seats stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from engines import PLAIN, like

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane, Request

SEATS = 2  # of each of two devices
PICTURES = tuple(like(prompt=f"a star {seat}", seed=seat) for seat in range(2 * SEATS))
UNGUIDED = like(guidance_scale=1.0)
HALFWAY = like(guidance_interval=(0.2, 0.7))  # evaluations 1 to 3 of 6


@pytest.fixture(scope="module")
def lane(device_lanes: dict[Lane, DeviceLane], model: LoadedModel, compiler: Compiler) -> DeviceLane:
    """A lane of its own with the programs of the others, and those of one row and of two."""
    assert device_lanes, "its programs are there"
    fitted = DeviceLane(PLAIN.lane, model, seats_per_device=SEATS, compiler=compiler)
    fitted.prepare_forms()
    return fitted


def painted(
    lane: DeviceLane,
    model: LoadedModel,
    runs: Iterable[Collection[int]],
    pictures: Sequence[Request] = PICTURES,
) -> tuple[list[int], npt.NDArray[np.float32]]:
    """Make one evaluation of each run's seats; return the rows of each run, and the latents of all seats.

    Picture n is admitted to seat n before the seat's first run.
    """
    lane.reset()
    done, rows = dict[int, int](), list[int]()
    for run in runs:
        newcomers = [seat for seat in run if seat not in done]
        lane.admit({seat: model.prepare(pictures[seat]) for seat in newcomers})
        spans = {seat: (done.get(seat, 0), done.get(seat, 0) + 1) for seat in run}
        done |= {seat: stop for seat, (_, stop) in spans.items()}
        rows.append(lane.denoise(spans).rows)
    return rows, np.asarray(lane._seated.sampler.x).copy()


@pytest.mark.parametrize(("picture", "rows"), [(PLAIN, 2), (UNGUIDED, 1)])
def test_a_picture_alone_has_its_rows_and_its_bits_in_every_seat(
    picture: Request, rows: int, lane: DeviceLane, model: LoadedModel
) -> None:
    found = [painted(lane, model, [(seat,)] * 6, [picture] * lane.seats) for seat in range(lane.seats)]
    assert [each for each, _ in found] == [[rows] * 6] * lane.seats
    assert len({latents[seat].tobytes() for seat, (_, latents) in enumerate(found)}) == 1


def test_one_picture_on_each_device_has_the_bits_of_a_picture_alone(
    lane: DeviceLane, model: LoadedModel
) -> None:
    rows, together = painted(lane, model, [(1, 2)] * 6)
    assert rows == [2] * 6
    for seat in (1, 2):
        _, alone = painted(lane, model, [(seat,)] * 6)
        np.testing.assert_array_equal(together[seat], alone[seat])


def test_an_unguided_picture_is_that_of_an_unguided_lane(
    lane: DeviceLane, model: LoadedModel, device_lanes: dict[Lane, DeviceLane]
) -> None:
    """Alone, beside another unguided picture, and beside a guided one."""
    _, expected = painted(device_lanes[UNGUIDED.lane], model, [(0,)] * 6, [UNGUIDED])
    others = ((), UNGUIDED), ((1,), UNGUIDED), ((1,), PLAIN)
    for (seats, other), rows in zip(others, (1, 2, 4), strict=True):
        found, latents = painted(lane, model, [(0, *seats)] * 6, [UNGUIDED, other])
        assert found == [rows] * 6
        np.testing.assert_allclose(latents[0], expected[0], rtol=0, atol=1e-4)


def test_outside_its_interval_a_picture_has_one_row_and_any_program_paints_it(
    lane: DeviceLane, model: LoadedModel, device_lanes: dict[Lane, DeviceLane]
) -> None:
    rows, fitted = painted(lane, model, [(0,)] * 6, [HALFWAY])
    assert rows == [1, 2, 2, 2, 1, 1]
    every, plain = painted(device_lanes[PLAIN.lane], model, [(0,)] * 6, [HALFWAY])
    assert every == [4] * 6
    np.testing.assert_allclose(fitted[0], plain[0], rtol=0, atol=1e-4)
    for scale in (1.0, PLAIN.guidance_scale):
        _, other = painted(lane, model, [(0,)] * 6, [like(guidance_scale=scale)])
        assert np.abs(other[0] - fitted[0]).max() > 1e-3


def test_a_run_over_the_end_of_an_interval_is_made_of_its_evaluations(
    lane: DeviceLane, model: LoadedModel
) -> None:
    _, single = painted(lane, model, [(0,)] * 6, [HALFWAY])
    lane.reset()
    lane.admit({0: model.prepare(HALFWAY)})
    lane.denoise({0: (0, 4)})
    lane.denoise({0: (4, 6)})
    np.testing.assert_array_equal(np.asarray(lane._seated.sampler.x)[0], single[0])


def test_rows_that_change_during_a_picture_change_it_only_by_rounding(
    lane: DeviceLane, model: LoadedModel
) -> None:
    """Seat 0 is alone, then has company on its device, then is alone again, then seat 1 is."""
    rows, mixed = painted(lane, model, [(0,), (0,), (0, 1), (0, 1), (0,), (0,), *[(1,)] * 4])
    _, full = painted(lane, model, [(0, 1)] * 6)
    assert rows == [2, 2, 4, 4, *[2] * 6]
    np.testing.assert_allclose(mixed[:SEATS], full[:SEATS], rtol=0, atol=1e-4)


def test_a_run_leaves_the_other_seats_as_they_are(lane: DeviceLane, model: LoadedModel) -> None:
    _, before = painted(lane, model, [range(lane.seats)])
    lane.denoise({1: (1, 3)})
    changed = [
        not np.array_equal(one, other)
        for one, other in zip(before, np.asarray(lane._seated.sampler.x), strict=True)
    ]
    assert changed == [False, True, False, False]
