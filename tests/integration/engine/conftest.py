"""A tiny checkpoint whose programs are compiled once, and engines on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from checkpoints import make_tiny_checkpoint
from engines import SMALLEST, TINY
from slow_devices import slow_devices

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.compiling.executables import Executables
from sdjax_engine.engine import Engine
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.memory import devices
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane
from sdjax_engine.scheduler.lane_queue import LaneQueue, Seats
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.startup.registry import lanes
from sdjax_engine.weights import load_checkpoint

SEATS_PER_DEVICE = 2
A_RUN = 0.2  # seconds; the least time of a run on slow devices

OpenEngine = Callable[..., Engine]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny", **SMALLEST)


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that keeps the tiny checkpoint's programs."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def compiler(cache_dir: Path) -> Compiler:
    devices.setup_cpu(2)
    mesh = devices.open_mesh()
    return Compiler(mesh=mesh, report=lambda _line: None, executables=Executables(cache_dir))


@pytest.fixture(scope="session")
def model(checkpoint: Path, compiler: Compiler) -> LoadedModel:
    loaded = load_checkpoint(str(checkpoint), put=lambda each: devices.replicate(each, compiler.mesh))
    return LoadedModel(TINY, loaded, compiler)


@pytest.fixture(scope="session")
def device_lanes(model: LoadedModel, compiler: Compiler) -> dict[Lane, DeviceLane]:
    opened = {
        lane: DeviceLane(lane, model, seats_per_device=SEATS_PER_DEVICE, compiler=compiler)
        for lane in lanes(TINY)
    }
    for device in opened.values():
        device.reset()
    return opened


@pytest.fixture
def open_engine(model: LoadedModel, device_lanes: dict[Lane, DeviceLane]) -> Iterator[OpenEngine]:
    """Opens an engine on the compiled lanes, or some of them, one at a time; it is closed with the test.

    `sabotaged` lanes take the place of the compiled ones.
    """
    opened = []

    def open_one(
        *wanted: Lane, sabotaged: Mapping[Lane, DeviceLane] = MappingProxyType({}), **how: Any
    ) -> Engine:
        served = {lane: sabotaged.get(lane, device_lanes[lane]) for lane in wanted or device_lanes}
        queues = {lane: LaneQueue(device=device, seats=seats_of(device)) for lane, device in served.items()}
        opened.append(Engine({TINY.model: model}, queues, time.perf_counter, **how))
        return opened[-1]

    yield open_one
    for engine in opened:
        engine.close(drain=False)


@pytest.fixture
def engine(open_engine: OpenEngine) -> Engine:
    return open_engine()


@pytest.fixture(name="slow_devices")
def _slow_devices() -> Iterator[None]:
    """Let pictures of few steps take long, instead of keeping the cores busy with many steps."""
    with slow_devices(A_RUN):
        yield


def seats_of(device: DeviceLane) -> Seats[PendingRequest]:
    return Seats(
        devices=device.seats // SEATS_PER_DEVICE,
        seats_per_device=SEATS_PER_DEVICE,
    )
