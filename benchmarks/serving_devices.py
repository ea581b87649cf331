"""Simulated devices: the work that the engine's loop queues takes time on a virtual clock.

Each device has its own timeline: work runs in the order in which it was queued. It starts when the host has
queued it and the earlier work has ended. The host's time passes while it prepares a call and while it waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from sdjax_engine.lane.device_lane import Verdicts, Work
from sdjax_engine.model.prepare import Prepared
from sdjax_engine.request import Lane

LANE = Lane(model="simulated", height=512, width=512, guided=True)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The seconds of a call: of the host, and of each device."""

    host: float = 0.0
    device: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The costs of an engine's work.

    `admit` and `decode` are for one wave of at most one seat per device; a device without a seat in the wave
    is idle. `run` is the fixed cost of a run, `evaluation` the cost of an evaluation of a device's seats,
    independent of the number of taken seats. `deliver` is the host's cost per picture.
    """

    admit: Cost = field(default_factory=Cost)
    run: Cost = field(default_factory=Cost)
    evaluation: float = 1.0
    decode: Cost = field(default_factory=Cost)
    deliver: float = 0.0


@dataclass(kw_only=True)
class VirtualClock:
    """The host's virtual time."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the time, in seconds."""
        return self.now

    def wait_until(self, time: float) -> None:
        """Advance the time to `time`, unless it is later already."""
        self.now = max(self.now, time)


@dataclass(frozen=True, kw_only=True)
class SimulatedRun:
    """A run of evaluations that ends at `end`."""

    clock: VirtualClock
    end: float
    rows: int

    @property
    def ready(self) -> bool:
        """Whether the run has ended."""
        return self.clock.now >= self.end

    def wait(self) -> None:
        """Advance the time to the end of the run."""
        self.clock.wait_until(self.end)


@dataclass(frozen=True, kw_only=True)
class SimulatedPicture:
    """A picture that is finished at `end`; its delivery takes `deliver` seconds of the host."""

    clock: VirtualClock
    end: float
    deliver: float

    @property
    def ready(self) -> bool:
        """Whether the picture was finished before now."""
        return self.clock.now > self.end

    def fetch(self) -> npt.NDArray[np.uint8]:
        """Advance the time to the end; the pixels do not matter."""
        self.clock.wait_until(self.end)
        self.clock.now += self.deliver
        return np.zeros((1, 1, 3), np.uint8)

    def fetch_verdicts(self) -> Verdicts:
        """Return no verdicts: nothing judges pictures."""
        return None, None

    def fetch_latents(self) -> npt.NDArray[np.float32]:
        """Return latents, which do not matter either."""
        return np.zeros((1, 1, 4), np.float32)


@dataclass(frozen=True, kw_only=True)
class DeviceWork:
    """The kind of work of a device from `begin` to `end`."""

    device: int
    kind: str
    begin: float
    end: float


class SimulatedDevices:
    """The devices of a lane, with the interface of `DeviceLane`; `work` is all that they did.

    With `in_step` the runs of all devices start together and take as long as the longest: one padded batch
    over all devices. Without it the devices are independent, as in the engine, whose programs do not
    communicate.
    """

    lane = LANE
    starts_from_pictures = False
    retries = False
    decodes_previews = False
    move_seconds = 0.0
    text_seconds = 0.0

    def __init__(
        self, clock: VirtualClock, costs: Costs, *, devices: int, seats_per_device: int, in_step: bool = False
    ) -> None:
        self._clock = clock
        self._costs = costs
        self.seats_per_device = seats_per_device
        self._in_step = in_step
        self._free = [0.0] * devices
        self._seats_changed = 0.0
        self.seats = devices * seats_per_device
        self.work: list[DeviceWork] = []

    def take_moves(self) -> tuple[()]:
        """Return that nothing moves: the model is always on the devices."""
        return ()

    def halve(self) -> bool:
        """Return False: memory is never short."""
        return False

    def free(self) -> None:
        """Free the seats, which takes no time."""

    def reset(self) -> None:
        """Empty every seat, which takes no time."""

    def has_done(self, earlier: Sequence[Work]) -> bool:
        """Whether the devices have changed the seats and done all `earlier` work, before now."""
        changed = self._clock.now > self._seats_changed
        return bool(earlier) and changed and all(work.ready for work in earlier)

    def admit(
        self, newcomers: Mapping[int, Prepared], earlier: Sequence[Work], _waiting: Iterable[Prepared]
    ) -> bool:
        """Admit newcomers, wave by wave; return whether the `earlier` work was done before one of them."""
        waited = False
        for wave in self._waves(newcomers):
            self._clock.now += self._costs.admit.host
            waited = waited or self.has_done(earlier)
            self._queue("admit", self._costs.admit, wave)
        return waited

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> SimulatedRun:
        """Run each device's evaluations: as many as its longest span has."""
        lengths = Counter[int]()
        for seat, (start, stop) in spans.items():
            device = seat // self.seats_per_device
            lengths[device] = max(lengths[device], stop - start)
        self._clock.now += self._costs.run.host
        if self._in_step:
            lengths = Counter(dict.fromkeys(range(len(self._free)), max(lengths.values())))
            self._free = [max(self._free)] * len(self._free)
        ends = [
            self._do("denoise", device, self._costs.run.device + length * self._costs.evaluation)
            for device, length in lengths.items()
        ]
        return SimulatedRun(clock=self._clock, end=max(ends), rows=self.seats_per_device)

    def estimate(self, weights: Mapping[int, tuple[float, float]]) -> NoReturn:
        """Raise: there are no previews."""
        raise NotImplementedError(weights)

    def decode(self, seats: Sequence[int]) -> Mapping[int, SimulatedPicture]:
        """Decode the pictures in these seats, wave by wave."""
        pictures: dict[int, SimulatedPicture] = {}
        for wave in self._waves(seats):
            self._clock.now += self._costs.decode.host
            ends = self._queue("decode", self._costs.decode, wave)
            pictures |= {seat: self._picture(ends[device]) for device, seat in wave.items()}
        return pictures

    def decode_again(self, latents: npt.NDArray[np.float32]) -> None:
        """Return None: no decoding fails."""

    def _picture(self, end: float) -> SimulatedPicture:
        return SimulatedPicture(clock=self._clock, end=end, deliver=self._costs.deliver)

    def _queue(self, kind: str, cost: Cost, wave: Iterable[int]) -> dict[int, float]:
        """Queue the same work on each device of a wave, from now on; return device → end of its work."""
        return {device: self._do(kind, device, cost.device) for device in wave}

    def _do(self, kind: str, device: int, seconds: float) -> float:
        begin = max(self._clock.now, self._free[device])
        self._free[device] = begin + seconds
        if kind != "decode":
            self._seats_changed = max(self._seats_changed, begin + seconds)
        self.work.append(DeviceWork(device=device, kind=kind, begin=begin, end=begin + seconds))
        return begin + seconds

    def _waves(self, seats: Iterable[int]) -> list[dict[int, int]]:
        """Divide seats into waves of at most one per device; a wave is device → seat."""
        waves: list[dict[int, int]] = []
        for seat in seats:
            device = seat // self.seats_per_device
            wave = next((wave for wave in waves if device not in wave), None)
            if wave is None:
                waves.append(wave := {})
            wave[device] = seat
        return waves
