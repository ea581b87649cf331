"""Programs spread over all devices, as accelerators have them, paint what each device's own paint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from engines import PLAIN, TINY, like

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.compiling.per_device import PerDevice
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.memory import devices
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane
from sdjax_engine.weights import load_checkpoint


def painted(
    lane: DeviceLane, model: LoadedModel, *seats: int
) -> tuple[int, list[npt.NDArray[np.uint8] | None]]:
    """The rows of a run of these seats, and a picture from each."""
    prepared = {seat: model.prepare(like(prompt=f"a star {seat}", seed=seat)) for seat in seats}
    lane.reset()
    lane.admit(prepared)
    run = lane.denoise({seat: (0, each.evaluations) for seat, each in prepared.items()})
    pictures = lane.decode(seats)
    return run.rows, [pictures[seat].fetch() for seat in seats]


def test_programs_spread_over_the_devices_paint_what_each_devices_own_paint(
    monkeypatch: pytest.MonkeyPatch,
    checkpoint: Path,
    compiler: Compiler,
    device_lanes: dict[Lane, DeviceLane],
    model: LoadedModel,
) -> None:
    """As on accelerators, but on two CPU devices: one evaluation a call, only some programs per device."""
    monkeypatch.setattr("sdjax_engine.compiling.compiler.one_program_per_device", lambda _mesh: False)
    monkeypatch.setattr(devices, "counts_on_host", lambda _mesh: True)
    spread = Compiler(mesh=compiler.mesh, report=compiler.report)
    loaded = load_checkpoint(str(checkpoint), put=lambda each: devices.replicate(each, spread.mesh))
    other = LoadedModel(TINY, loaded, spread)
    apart = device_lanes[PLAIN.lane]
    seats = apart.seats_per_device
    together = DeviceLane(PLAIN.lane, other, seats_per_device=seats, compiler=spread, start_pictures=False)
    assert all(isinstance(program, PerDevice) for program in apart._programs.denoise.values())
    assert not any(isinstance(program, PerDevice) for program in together._programs.denoise.values())
    assert isinstance(together._programs.decode, PerDevice)
    (_, one), (rows, every) = (painted(*each, *range(4)) for each in ((apart, model), (together, other)))
    assert (apart.seats, rows) == (4, 4)
    assert len({picture.tobytes() for picture in one if picture is not None}) == apart.seats
    np.testing.assert_array_equal(one, every)
    together.prepare_forms()
    rows, [first, last] = painted(together, other, 0, 3)
    assert rows == 2
    for picture, expected in zip((first, last), (every[0], every[3]), strict=True):
        assert picture is not None
        assert expected is not None
        np.testing.assert_allclose(picture.astype(int), expected.astype(int), rtol=0, atol=1)
