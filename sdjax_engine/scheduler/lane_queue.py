"""One lane: its requests and seats, its devices' side, and the seconds that its work takes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.request import Lane
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.previews import Previews
from sdjax_engine.scheduler.seats import RunLimits, Seats

MEMORY_OF_MEAN = 0.8  # the share of a moving mean that remains after each new value
QUICKEST, SLOWEST = 0.1, 0.9  # quantiles that stand for the least and the most
REMEMBERED = 32  # values that a quantile is taken of
LEAST_MEASURED = 5  # runs, of which the quickest is used: some of them waited for a decoding
WATCHED, MOST_IDLE = 12, 4  # runs: with idle devices after 4 of the last 12, earlier values are dropped
SHORT_SECONDS, SHARED_SECONDS, LONG_SECONDS = 0.02, 0.1, 1.0
"""The most seconds of a run of several evaluations: with free seats, while other lanes wait, with all taken.

A new request waits for one run and a half on average. With seats free a run is therefore hardly longer than
the host needs to queue the next run. Where lanes alternate, the runs are long enough to be worth a change.
"""

LIMITS = RunLimits()


class RecentQuantile:
    """A quantile of the last 32 values, which a few outliers do not move; `quantile` is from 0 to 1.

    There is none before `least` values.
    """

    def __init__(self, quantile: float, *, least: int = 1) -> None:
        self._quantile = quantile
        self._least = least
        self._values: deque[float] = deque(maxlen=REMEMBERED)

    def add(self, value: float) -> None:
        """Remember one more value, and forget the oldest."""
        self._values.append(value)

    @property
    def value(self) -> float | None:
        """The quantile; None before the least number of values."""
        if len(self._values) < self._least:
            return None
        return sorted(self._values)[round(self._quantile * (len(self._values) - 1))]


class QuickestEvaluation:
    """The least seconds that an evaluation took in the latest runs with the same number of rows.

    The scheduler queues the next run by this value. If the value is too large, the devices are idle before
    the next run, and the measured run seems to last until then: the value would stay. It is therefore dropped
    once the devices were idle after `MOST_IDLE` of the last `WATCHED` runs, and unknown until
    `LEAST_MEASURED` further runs are measured.
    """

    def __init__(self) -> None:
        self._seconds: RecentQuantile | None = None
        self._idle_after: deque[bool] = deque(maxlen=WATCHED)

    def add(self, seconds: float, *, idle_after: bool) -> None:
        """Add the seconds of one more run; the first run is ignored, because first calls take longer."""
        self._idle_after.append(idle_after)
        if sum(self._idle_after) == MOST_IDLE:
            self._idle_after.clear()
            self._seconds = None
        if self._seconds is None:
            self._seconds = RecentQuantile(QUICKEST, least=LEAST_MEASURED)
        else:
            self._seconds.add(seconds)

    @property
    def value(self) -> float | None:
        """The seconds; None while too few runs were measured."""
        return None if self._seconds is None else self._seconds.value


@dataclass(kw_only=True, eq=False)
class LaneQueue:
    """One lane: its `device`, its requests and seats, and the seconds that its work takes.

    `quickest_evaluations` are by the rows of a run. `slowest_queueing` is the most seconds that the host took
    to queue a run lately. `broken` says that the seats on the devices need a reset. Without `previews` no
    request gets any.
    """

    device: DeviceLane
    seats: Seats[PendingRequest] = field(repr=False)
    seconds_per_image: float | None = None
    seconds_per_evaluation: float | None = None
    quickest_evaluations: dict[int, QuickestEvaluation] = field(default_factory=dict, repr=False)
    slowest_queueing: RecentQuantile = field(default_factory=lambda: RecentQuantile(SLOWEST), repr=False)
    broken: bool = False
    previews: Previews | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Copy the values of the lane on the devices that never change."""
        self.lane: Lane = self.device.lane
        self.devices = self.device.seats // self.device.seats_per_device
        self.on_several_devices = self.devices > 1

    def limits(self, *, shared: bool = False) -> RunLimits:
        """Return how long its runs may be, in evaluations; `shared` where other lanes have requests too."""
        seconds = self.seconds_per_evaluation
        if not seconds:
            return LIMITS
        most, briefly = (LIMITS.long, SHARED_SECONDS) if shared else (LIMITS.short, SHORT_SECONDS)
        return RunLimits(
            short=max(1, min(most, int(briefly / seconds))),
            long=max(1, min(LIMITS.long, int(LONG_SECONDS / seconds))),
        )

    def seconds_of(self, evaluations: int) -> float:
        """Return how long so many evaluations usually take; a second each before the first run."""
        return evaluations * (self.seconds_per_evaluation or 1.0)

    def quickest_evaluation(self, rows: int) -> float | None:
        """Return the least that an evaluation of so many rows took lately; None while unknown."""
        known = self.quickest_evaluations.get(rows)
        return None if known is None else known.value

    def learn_run(self, seconds: float, evaluations: int, rows: int, *, idle_after: bool = False) -> None:
        """Learn how long one more run of so many rows took, and whether the devices were idle after it."""
        each = seconds / evaluations
        self.quickest_evaluations.setdefault(rows, QuickestEvaluation()).add(each, idle_after=idle_after)
        self.seconds_per_evaluation = moving_mean(self.seconds_per_evaluation, each)

    def clear_seats(self) -> list[PendingRequest]:
        """Empty every seat, adopt the number of seats that the devices now have, and return the requests."""
        seated = self.seats.clear_seats()
        self.seats.resize(self.device.seats_per_device)
        return seated


def moving_mean(mean: float | None, value: float) -> float:
    """Return a moving mean with one more value."""
    return value if mean is None else MEMORY_OF_MEAN * mean + (1 - MEMORY_OF_MEAN) * value


@dataclass(kw_only=True)
class Sums:
    """The runs of all lanes: how many, seconds of dispatching and of finishing them, how many were late.

    A GPU queues about a thousand launches, fewer than a run of SDXL has. The host then waits for room in the
    queue while the devices still have work, and dispatching lasts nearly as long as the run. Where the host
    waits for the end of the run instead, the next run is late: the devices wait for the host, and finished
    pictures arrive a run late. A run is late too where the devices wait for its admission. Devices that are
    idle between the launches of one run are not detected.
    """

    runs: int = 0
    dispatching: float = 0.0
    finishing: float = 0.0
    late: int = 0

    def add(self, dispatching: float, finishing: float, *, late: bool) -> None:
        """Add one more run: seconds that the host took to dispatch it, seconds that the devices took.

        It is `late` where the devices had finished all earlier work before it or its admission was queued.
        """
        self.runs += 1
        self.dispatching += dispatching
        self.finishing += finishing
        self.late += late
