"""One lane: its line and seats, its previews, the seconds of its work, its share of the devices' time.

    line ──take_seats──► seats ──plan_run──► seats ──► finished, seat free again
      └──────── leave ───────┘

Requests wait in the order of their arrival. A seat counts its own evaluations, so a request takes a free
seat at the end of any run while the other seats go on. An empty seat may be computed with the batch; its
result is dropped. `Seats` are pure policy: they know no devices, pictures or threads, and a request is any
hashable object of the caller.

Lanes have fair shares of the devices' time, by how many images want it: start-time fair queueing (Goyal, Vin
and Cheng 1996), as in the bot's queue. The tag of a lane grows by the seconds that it was served, divided by
the seats that its requests want, and the lane with the smallest tag is served next: one image of a rare lane
has the share of one seat, and never waits for ever. Where a lane's model must first be moved to the devices,
the lane served now is kept until it is ahead by a multiple of what the move costs.
"""

from __future__ import annotations

import statistics
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.model.latent_rgb import coloured
from sdjax_engine.model.prepare import Prepared
from sdjax_engine.request import Lane
from sdjax_engine.scheduler.pending import PendingRequest

AnyRequest = TypeVar("AnyRequest", bound=Hashable)
AnyLane = TypeVar("AnyLane", bound=Hashable)
MOVES_AHEAD = 4.0
"""A lane is served for this many times the seconds of a move before another model takes its place."""

# Seats of a device unless the configuration says how many. On a slice of the CPU one picture fills the
# core: a second seat saves nothing and doubles the time of a single picture. An accelerator needs a few.
SEATS_ON_CPU = 1
SEATS_ON_ACCELERATOR = 4


def suitable_seats(*, on_cpu: bool) -> int:
    """Return how many seats a device has unless the configuration says."""
    return SEATS_ON_CPU if on_cpu else SEATS_ON_ACCELERATOR


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """How many evaluations a run has at most: `short` with a free seat for a newcomer, `long` without one.

    A full batch runs until its next seat finishes, but not for so long that progress is silent or a seat
    of a cancelled request is held.
    """

    short: int = 4
    long: int = 16


@dataclass(frozen=True, kw_only=True)
class Span(Generic[AnyRequest]):
    """What one seat does in a run: the evaluations from `start` up to, not including, `stop`."""

    seat: int
    request: AnyRequest
    start: int
    stop: int
    last: bool


@dataclass(kw_only=True)
class Stay(Generic[AnyRequest]):
    """A request in the line or in a seat; with `alone` it shares no run with other requests."""

    request: AnyRequest
    evaluations: int
    done: int = 0
    alone: bool = False

    @property
    def left(self) -> int:
        """How many evaluations are still to be made."""
        return self.evaluations - self.done


class Seats(Generic[AnyRequest]):
    """The line and the seats of one lane.

    Seat `i` is on device `i // seats_per_device`.
    """

    def __init__(self, *, devices: int, seats_per_device: int) -> None:
        self._devices = devices
        self.line: OrderedDict[AnyRequest, Stay[AnyRequest]] = OrderedDict()
        self.resize(seats_per_device)

    def __len__(self) -> int:
        """How many seats there are, taken or not."""
        return len(self._seats)

    @property
    def requests(self) -> list[AnyRequest]:
        """Every request here, the seated before the waiting."""
        return self.seated + self.waiting

    @property
    def seated(self) -> list[AnyRequest]:
        """Every request in a seat, in the order of the seats."""
        return [taken.request for _, taken in self._taken()]

    @property
    def waiting(self) -> list[AnyRequest]:
        """Every request in the line, the oldest first."""
        return list(self.line)

    @property
    def present(self) -> int:
        """How many requests wait or have a seat."""
        return len(self.line) + sum(1 for _ in self._taken())

    @property
    def wanted(self) -> int:
        """How many seats a run would take now; 0 where no request has a seat or could take one."""
        return min(self.present, len(self))

    @property
    def open_to_newcomers(self) -> bool:
        """Whether a request that came now would take a seat before the next run."""
        if self.present >= len(self):
            return False
        if any(taken.alone for _, taken in self._taken()):
            return False
        return not any(waiting.alone for waiting in self.line.values())

    def resize(self, seats_per_device: int) -> None:
        """Give every device so many empty seats; the line stays."""
        self._seats_per_device = seats_per_device
        self._seats: list[Stay[AnyRequest] | None] = [None] * (self._devices * seats_per_device)

    def join(self, request: AnyRequest, evaluations: int) -> None:
        """Put a request at the end of the line; its picture takes `evaluations` of the network."""
        self.line[request] = Stay(request=request, evaluations=evaluations)

    def rejoin(self, requests: Iterable[tuple[AnyRequest, int]], *, alone: bool) -> None:
        """Put requests, each with its evaluations, back at the front of the line, in this order."""
        for request, evaluations in reversed(list(requests)):
            self.line[request] = Stay(request=request, evaluations=evaluations, alone=alone)
            self.line.move_to_end(request, last=False)

    def leave(self, request: AnyRequest) -> bool:
        """Take a request out of the line or its seat; False for a request that is in neither."""
        if self.line.pop(request, None) is not None:
            return True
        found = (number for number, taken in self._taken() if taken.request == request)
        seat = next(found, None)
        if seat is not None:
            self._seats[seat] = None
        return seat is not None

    def take_seats(self, most: int | None = None) -> dict[int, AnyRequest]:
        """Seat as many waiting requests as there is room for, on the emptiest devices first; at most `most`.

        Returns the requests that have just got a seat, by their seats.
        """
        newcomers: dict[int, AnyRequest] = {}
        while (first := self._first_in_line()) is not None and self._may_be_seated(first):
            seat = self._best_seat()
            if seat is None or len(newcomers) == most:
                break
            del self.line[first.request]
            self._seats[seat] = first
            newcomers[seat] = first.request
        return newcomers

    def plan_run(self, limits: RunLimits | None = None) -> list[Span[AnyRequest]]:
        """Decide the next run and count it as done: finished seats are free again. Empty: no request."""
        length = self._run_length(limits or RunLimits())
        spans = []
        for seat, seated in enumerate(self._seats):
            if seated is None:
                continue
            start, seated.done = seated.done, min(seated.done + length, seated.evaluations)
            spans.append(
                Span(
                    seat=seat,
                    request=seated.request,
                    start=start,
                    stop=seated.done,
                    last=not seated.left,
                )
            )
            if not seated.left:
                self._seats[seat] = None
        return spans

    def clear_seats(self) -> list[AnyRequest]:
        """Empty every seat and return the requests that had one; those that wait stay."""
        seated = self.seated
        self.resize(self._seats_per_device)
        return seated

    def _first_in_line(self) -> Stay[AnyRequest] | None:
        return next(iter(self.line.values()), None)

    def _taken(self) -> Iterator[tuple[int, Stay[AnyRequest]]]:
        for seat, seated in enumerate(self._seats):
            if seated is not None:
                yield seat, seated

    def _taken_by_device(self) -> list[int]:
        counts = [0] * self._devices
        for seat, _ in self._taken():
            counts[seat // self._seats_per_device] += 1
        return counts

    def _may_be_seated(self, newcomer: Stay[AnyRequest]) -> bool:
        seated = [taken for _, taken in self._taken()]
        return not seated or not (newcomer.alone or any(taken.alone for taken in seated))

    def _best_seat(self) -> int | None:
        """Return the free seat of the emptiest device."""
        counts = self._taken_by_device()
        free = (seat for seat, seated in enumerate(self._seats) if seated is None)
        return min(free, key=lambda seat: (counts[seat // self._seats_per_device], seat), default=None)

    def _run_length(self, limits: RunLimits) -> int:
        left = [taken.left for _, taken in self._taken()]
        return min([*left, limits.long if len(left) == len(self._seats) else limits.short])


TIMES_REMEMBERED = 9  # times; their median is how long previews take


@dataclass(kw_only=True, eq=False)
class Previews:
    """The previews of one lane: when they are due, and their pixels.

    The devices estimate the pictures of all seats together, at most every `seconds`, and less often where
    that would take more than `most_share` of the lane's time. `colours` is the map of `latent_rgb`; without
    one there are only previews that the devices decode.
    """

    seconds: float
    most_share: float
    colours: npt.NDArray[np.float64] | None = field(default=None, repr=False)
    _made_at: float = float("-inf")
    _worked: float = 0.0  # seconds of the lane since then
    _taken: deque[float] = field(default_factory=lambda: deque(maxlen=TIMES_REMEMBERED), repr=False)
    _is_first: bool = True

    def due(
        self, spans: Iterable[Span[PendingRequest]], now: float, *, decoded: bool
    ) -> dict[int, tuple[float, float]]:
        """Return the seats to estimate after a run, with the weights of `Table.estimates`; often none.

        `decoded`: the devices make pixels of the estimates. A request that the run finishes gets its picture
        instead.
        """
        if not (decoded or self.colours is not None) or now - self._made_at < self.seconds:
            return {}
        if self._taken and self._worked * self.most_share < statistics.median(self._taken):
            return {}
        weights = {}
        for span in spans:
            if span.request.previews and not span.last and span.stop > 0:
                of_x, of_kept = span.request.prepared.estimates[span.stop - 1]
                weights[span.seat] = float(of_x), float(of_kept)
        if weights:
            self._made_at, self._worked = now, 0.0
        return weights

    def worked(self, seconds: float) -> None:
        """Count the time of a run of the lane."""
        self._worked += seconds

    def took(self, seconds: float) -> None:
        """Remember how long the devices needed for previews; the first time, which is longer, is ignored."""
        if not self._is_first:
            self._taken.append(seconds)
        self._is_first = False

    def pixels(
        self, estimates: npt.NDArray[Any], seats: Iterable[int]
    ) -> Mapping[int, npt.NDArray[np.uint8]]:
        """Return the previews (h, w, 3) of these seats from the estimates of all.

        The estimates are pixels (seats, h, w, 3) uint8 or latents (seats, h, w, c) float32.
        """
        if estimates.dtype == np.uint8:
            return {seat: np.array(estimates[seat]) for seat in seats}
        assert self.colours is not None, "without colours the devices decode"
        return {seat: coloured(estimates[seat], self.colours) for seat in seats}


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
    to queue a run lately. `broken` says that the seats on the devices need a reset. `admitted_at` is when the
    devices last had to fetch parameters for newcomers. Without `previews` no request gets any.
    """

    device: DeviceLane
    seats: Seats[PendingRequest] = field(repr=False)
    seconds_per_image: float | None = None
    seconds_per_evaluation: float | None = None
    quickest_evaluations: dict[int, QuickestEvaluation] = field(default_factory=dict, repr=False)
    slowest_queueing: RecentQuantile = field(default_factory=lambda: RecentQuantile(SLOWEST), repr=False)
    broken: bool = False
    admitted_at: float = float("-inf")
    previews: Previews | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Copy the values of the lane on the devices that never change."""
        self.lane: Lane = self.device.lane
        self.devices = self.device.seats // self.device.seats_per_device
        self.on_several_devices = self.devices > 1

    def most_newcomers(self, now: float) -> int | None:
        """Return how many requests may take seats; None: any number.

        Where the text encoders and the denoiser take turns on the devices, the requests in the seats go on
        for a multiple of what that costs. Until then only requests whose texts are encoded are admitted.
        """
        if not (self.seats.line and self.seats.seated):
            return None
        if now - self.admitted_at >= MOVES_AHEAD * self.device.text_seconds:
            return None
        return sum(1 for _ in takewhile(self.device.knows_texts, (each.prepared for each in self.seats.line)))

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


def waiting_for(model: str, queues: Iterable[LaneQueue]) -> Iterator[Prepared]:
    """Return the requests that wait for a seat of a model's lanes, the oldest of each lane first."""
    lines = [queue.seats.line for queue in queues if queue.lane.model == model]
    return (pending.prepared for line in lines for pending in line)


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


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The demand of a lane: how many seats, at least 1, and the seconds until its model is on the devices."""

    seats: int
    move_seconds: float = 0.0


class LaneShares(Generic[AnyLane]):
    """Counts how much of the devices' time each lane has had."""

    def __init__(self) -> None:
        self._tags: dict[AnyLane, float] = {}
        self._now = 0.0
        self._served: AnyLane | None = None

    def choose(self, demands: Mapping[AnyLane, Demand]) -> AnyLane:
        """Return the lane to serve next; there must be at least one."""
        for lane in demands:
            self._tags[lane] = max(self._tags.get(lane, 0.0), self._now)
        chosen = min(demands, key=lambda lane: self._tags[lane])
        served = self._served
        if served is not None and served in demands and self._stays(served, demands, chosen):
            chosen = served
        self._served = chosen
        self._now = min(self._tags[lane] for lane in demands)
        self._tags = {lane: tag for lane, tag in self._tags.items() if lane in demands or tag > self._now}
        return chosen

    def charge(self, lane: AnyLane, seconds: float, seats: int) -> None:
        """Count `seconds` of the devices' time on a lane that wants `seats`; less than 0 takes some back."""
        self._tags[lane] = self._tags.get(lane, self._now) + seconds / seats

    def _stays(self, served: AnyLane, demands: Mapping[AnyLane, Demand], chosen: AnyLane) -> bool:
        ahead = (self._tags[served] - self._tags[chosen]) * demands[served].seats
        return ahead < MOVES_AHEAD * demands[chosen].move_seconds
