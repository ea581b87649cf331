"""Where pictures are decoded is no part of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from engines import PLAIN, TINY, like

from sdjax_engine import devices
from sdjax_engine.lanes import DeviceLane
from sdjax_engine.loaded import LoadedModel
from sdjax_engine.programs import Compiler
from sdjax_engine.request import Lane
from sdjax_engine.weights import load_checkpoint


def painted(lane: DeviceLane, model: LoadedModel) -> list[npt.NDArray[np.uint8] | None]:
    """A picture from every seat, decoded at once and from latents that were taken before."""
    prepared = {seat: model.prepare(like(seed=seat)) for seat in range(lane.seats)}
    lane.reset()
    lane.admit(prepared)
    lane.denoise({seat: (0, each.evaluations) for seat, each in prepared.items()})
    latents = [each.fetch() for each in lane.take(range(lane.seats)).values()]
    pictures = [*lane.decode(range(lane.seats)).values(), *lane.decode_latents(latents)]
    return [picture.fetch() for picture in pictures]


def test_pictures_decoded_by_all_devices_are_those_decoded_by_one(
    monkeypatch: pytest.MonkeyPatch,
    checkpoint: Path,
    compiler: Compiler,
    device_lanes: dict[Lane, DeviceLane],
    model: LoadedModel,
) -> None:
    """An accelerator's way, on a CPU that is cut into two."""
    monkeypatch.setattr(devices, "decoding_mesh", lambda mesh: mesh)
    loaded = load_checkpoint(str(checkpoint), put=lambda each: devices.replicate(each, compiler.mesh))
    spread = LoadedModel(TINY, loaded, compiler)
    by_one = device_lanes[PLAIN.lane]
    by_all = DeviceLane(PLAIN.lane, spread, seats_per_device=by_one.seats_per_device, compiler=compiler)
    assert (devices.device_count(model.decoding_mesh), devices.device_count(spread.decoding_mesh)) == (1, 2)
    one, every = painted(by_one, model), painted(by_all, spread)
    assert len(one) == 2 * by_one.seats
    assert len({picture.tobytes() for picture in one if picture is not None}) == by_one.seats
    np.testing.assert_array_equal(one, every)
