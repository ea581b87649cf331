"""Programs that fit their runs: few pictures are few rows, and the seats of others stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt
import pytest
from engines import PLAIN, like

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane

SEATS = 2  # of each of two devices
PICTURES = tuple(like(prompt=f"a star {seat}", seed=seat) for seat in range(2 * SEATS))


@pytest.fixture(scope="module")
def lane(device_lanes: dict[Lane, DeviceLane], model: LoadedModel, compiler: Compiler) -> DeviceLane:
    """A lane of its own with the programs of the others, and that of one row."""
    assert device_lanes, "its programs are there"
    fitted = DeviceLane(PLAIN.lane, model, seats_per_device=SEATS, compiler=compiler)
    fitted.prepare_forms()
    return fitted


def painted(
    lane: DeviceLane, model: LoadedModel, runs: Iterable[Collection[int]], same: bool = False
) -> tuple[list[int], npt.NDArray[np.float32]]:
    """Make one evaluation of these seats in each run; the rows of each run, and the latents of all seats.

    A seat is given its picture before its first run: its own one, or the `same` as all others.
    """
    lane.reset()
    done, rows = dict[int, int](), list[int]()
    for run in runs:
        newcomers = {seat: PICTURES[0 if same else seat] for seat in run if seat not in done}
        lane.admit({seat: model.prepare(picture) for seat, picture in newcomers.items()})
        spans = {seat: (done.get(seat, 0), done.get(seat, 0) + 1) for seat in run}
        done |= {seat: stop for seat, (_, stop) in spans.items()}
        rows.append(lane.denoise(spans).rows)
    return rows, lane.latents().copy()


def test_a_picture_alone_is_one_row_and_has_its_bits_in_every_seat(
    lane: DeviceLane, model: LoadedModel
) -> None:
    found = [painted(lane, model, [(seat,)] * 6, same=True) for seat in range(lane.seats)]
    assert [rows for rows, _ in found] == [[1] * 6] * lane.seats
    assert len({latents[seat].tobytes() for seat, (_, latents) in enumerate(found)}) == 1


def test_one_picture_on_each_device_is_one_row_and_has_the_bits_of_a_picture_alone(
    lane: DeviceLane, model: LoadedModel
) -> None:
    rows, together = painted(lane, model, [(1, 2)] * 6)
    assert rows == [1] * 6
    for seat in (1, 2):
        _, alone = painted(lane, model, [(seat,)] * 6)
        np.testing.assert_array_equal(together[seat], alone[seat])


def test_rows_that_change_during_a_picture_change_it_only_by_rounding(
    lane: DeviceLane, model: LoadedModel
) -> None:
    """Seat 0 is alone, then has company on its device, then is alone again, then seat 1 is."""
    rows, mixed = painted(lane, model, [(0,), (0,), (0, 1), (0, 1), (0,), (0,), *[(1,)] * 4])
    _, full = painted(lane, model, [(0, 1)] * 6)
    assert rows == [1, 1, 2, 2, *[1] * 6]
    np.testing.assert_allclose(mixed[:SEATS], full[:SEATS], rtol=0, atol=1e-4)


def test_a_run_leaves_the_other_seats_as_they_are(lane: DeviceLane, model: LoadedModel) -> None:
    _, before = painted(lane, model, [range(lane.seats)])
    lane.denoise({1: (1, 3)})
    changed = [not np.array_equal(one, other) for one, other in zip(before, lane.latents(), strict=True)]
    assert changed == [False, True, False, False]
