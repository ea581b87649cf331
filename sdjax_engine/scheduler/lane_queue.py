"""What serves one lane: its line and seats, what the devices hold of them, and how long things take there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sdjax_engine.model.prepare import Prepared
from sdjax_engine.request import Lane, SafetyScores
from sdjax_engine.scheduler.lane_shares import Demand
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.recent import RecentQuantile
from sdjax_engine.scheduler.seats import RunLimits, Seats

MEMORY_OF_MEAN = 0.8  # how much of a moving mean each new value leaves as it was
QUICKEST, SLOWEST = 0.1, 0.9  # quantiles that stand for the least and the most
SHORT_SECONDS, SHARED_SECONDS, LONG_SECONDS = 0.02, 0.1, 1.0
"""How long a run is at most, beyond one evaluation: with seats free, so while other lanes wait, and full.

Whoever comes waits for one run and a half on average, so with seats free a run is hardly longer than the host
needs to queue the next. Where lanes take turns, each turn must be worth its trouble.
"""

LIMITS = RunLimits()


class Run(Protocol):
    """Evaluations that the devices have been given."""

    @property
    def ready(self) -> bool:
        """Whether the devices have made them, so that nobody would wait."""
        ...

    def wait(self) -> None:
        """Return when the devices have made them; raises what broke them."""
        ...


class Picture(Protocol):
    """A picture on its way from the devices."""

    def fetch(self) -> npt.NDArray[np.uint8] | None:
        """Wait for the pixels, uint8 (height, width, 3); None where the picture is not finite."""
        ...

    def fetch_safety(self) -> SafetyScores | None:
        """Wait for what the safety checker says; None where there is none."""
        ...

    def fetch_latents(self) -> npt.NDArray[np.float32]:
        """Wait for what was decoded, (h, w, c)."""
        ...


class SeatDevices(Protocol):
    """The devices' side of a lane, as `lanes.DeviceLane` has it; no call waits for them."""

    @property
    def lane(self) -> Lane:
        """Which lane it is."""
        ...

    @property
    def seats(self) -> int:
        """How many seats there are on all devices."""
        ...

    @property
    def starts_from_pictures(self) -> bool:
        """Whether an image may start from a picture here."""
        ...

    @property
    def seats_per_device(self) -> int:
        """How many seats there are on each device."""
        ...

    @property
    def retries(self) -> bool:
        """Whether `decode_again` can make more of latents than `decode` did."""
        ...

    @property
    def move_seconds(self) -> float:
        """How long `bring` takes; 0 where there is nothing to move."""
        ...

    def bring(self) -> None:
        """Make the model's parameters be on the devices; needed before any work."""
        ...

    def halve(self) -> bool:
        """Make do with less memory, every seat being empty afterwards; False where that cannot be."""
        ...

    def reset(self) -> None:
        """Empty every seat; needed after an error before anything else."""
        ...

    def anew(self) -> SeatDevices:
        """Return another with the same programs, which needs a reset and shares no seats."""
        ...

    def admit(self, newcomers: Mapping[int, Prepared]) -> None:
        """Let newcomers into their seats."""
        ...

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> Run:
        """Make the evaluations from start up to stop in each of these seats."""
        ...

    def decode(self, seats: Sequence[int]) -> Mapping[int, Picture]:
        """Decode the pictures in these seats and start their way to the host."""
        ...

    def decode_again(self, latents: npt.NDArray[np.float32]) -> Picture | None:
        """Decode latents (h, w, c) with more precision; None where there is none to be had."""
        ...


@dataclass(kw_only=True, eq=False)
class LaneQueue:
    """One lane: its devices' side, its line and seats, and moving means of what its work takes, in seconds.

    `evaluations_lately` is what evaluations took lately, `queueing_lately` what the host took to queue a run.
    A desk is `broken` when its seats on the devices must be emptied before they are used again.
    """

    device: SeatDevices
    seats: Seats[PendingRequest] = field(repr=False)
    seconds_per_image: float | None = None
    seconds_per_evaluation: float | None = None
    evaluations_lately: RecentQuantile = field(
        default_factory=lambda: RecentQuantile(quantile=QUICKEST), repr=False
    )
    queueing_lately: RecentQuantile = field(
        default_factory=lambda: RecentQuantile(quantile=SLOWEST), repr=False
    )
    broken: bool = False

    @property
    def lane(self) -> Lane:
        """Which lane it serves."""
        return self.device.lane

    @property
    def on_several_devices(self) -> bool:
        """Whether its seats are spread over several devices, which may be done at different times."""
        return self.device.seats > self.device.seats_per_device

    def limits(self, *, shared: bool = False) -> RunLimits:
        """How long its runs may be, in evaluations; `shared` where other lanes wait for their turns."""
        seconds = self.seconds_per_evaluation
        if not seconds:
            return LIMITS
        most, briefly = (LIMITS.long, SHARED_SECONDS) if shared else (LIMITS.short, SHORT_SECONDS)
        return RunLimits(
            short=max(1, min(most, int(briefly / seconds))),
            long=max(1, min(LIMITS.long, int(LONG_SECONDS / seconds))),
        )

    @property
    def demand(self) -> Demand:
        """How much of the devices' time it wants."""
        wanted = min(self.seats.present, len(self.seats))
        return Demand(seats=max(1, wanted), move_seconds=self.device.move_seconds)

    @property
    def quickest(self) -> float | None:
        """What an evaluation took at the least, lately; None before that is known."""
        return self.evaluations_lately.value

    @property
    def seconds_to_queue(self) -> float:
        """What the host took at the most, lately, to queue a run."""
        return self.queueing_lately.value or 0.0

    def anew(self) -> LaneQueue:
        """Return another with the same line, whose seats are empty."""
        device = self.device.anew()
        return replace(self, device=device, seats=self.seats.anew(device.seats_per_device), broken=True)

    def clear_seats(self) -> list[PendingRequest]:
        """Empty every seat, of which there are as many as the devices now have, and return who sat."""
        seated = self.seats.clear_seats()
        self.seats.resize(self.device.seats_per_device)
        return seated

    def estimate(self, evaluations: int) -> float:
        """How long so many evaluations take; before the first has been measured, a second each."""
        return evaluations * (self.seconds_per_evaluation or 1.0)

    def learn_run(self, seconds: float, evaluations: int) -> None:
        """Let the time of one more run into the moving mean.

        The first tells nothing of the quickest: whatever is done for the first time takes longer.
        """
        each = seconds / evaluations
        if self.seconds_per_evaluation is not None:
            self.evaluations_lately.add(each)
        self.seconds_per_evaluation = _moved(self.seconds_per_evaluation, each)

    def learn_queueing(self, seconds: float) -> None:
        """Remember how long the host took to queue one more run, once the model was there."""
        self.queueing_lately.add(seconds)

    def learn_image(self, seconds: float) -> None:
        """Let the time of one more image, from its seat to its pixels, into the moving mean."""
        self.seconds_per_image = _moved(self.seconds_per_image, seconds)


def _moved(mean: float | None, value: float) -> float:
    return value if mean is None else MEMORY_OF_MEAN * mean + (1 - MEMORY_OF_MEAN) * value
