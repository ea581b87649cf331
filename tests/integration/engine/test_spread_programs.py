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


def painted(lane: DeviceLane, model: LoadedModel) -> list[npt.NDArray[np.uint8] | None]:
    """A picture from every seat."""
    prepared = {seat: model.prepare(like(prompt=f"a star {seat}", seed=seat)) for seat in range(lane.seats)}
    lane.reset()
    lane.admit(prepared)
    lane.denoise({seat: (0, each.evaluations) for seat, each in prepared.items()})
    return [picture.fetch() for picture in lane.decode(range(lane.seats)).values()]


def test_programs_spread_over_the_devices_paint_what_each_devices_own_paint(
    monkeypatch: pytest.MonkeyPatch,
    checkpoint: Path,
    compiler: Compiler,
    device_lanes: dict[Lane, DeviceLane],
    model: LoadedModel,
) -> None:
    """An accelerator's way, on a CPU that is cut into two: one evaluation a call, what few need apart."""
    monkeypatch.setattr("sdjax_engine.compiling.compiler.one_program_per_device", lambda _mesh: False)
    monkeypatch.setattr(devices, "counts_on_host", lambda _mesh: True)
    spread = Compiler(mesh=compiler.mesh, report=compiler.report)
    loaded = load_checkpoint(str(checkpoint), put=lambda each: devices.replicate(each, spread.mesh))
    other = LoadedModel(TINY, loaded, spread)
    apart = device_lanes[PLAIN.lane]
    together = DeviceLane(PLAIN.lane, other, seats_per_device=apart.seats_per_device, compiler=spread)
    assert isinstance(apart._programs.denoise, PerDevice)
    assert not isinstance(together._programs.denoise, PerDevice)
    assert isinstance(together._programs.decode, PerDevice)
    one, every = painted(apart, model), painted(together, other)
    assert len({picture.tobytes() for picture in one if picture is not None}) == apart.seats
    np.testing.assert_array_equal(one, every)
