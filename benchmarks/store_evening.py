"""An evening of the real queue in virtual time: requests arrive, painters claim, images take seats.

The store and the engine's choice of the next lane are the shipped ones; only the devices are simulated. So
estimated waits are compared with real waits, and each person's share with the fair share.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from bot.domain.jobs import Claim, Job, Origin, Recipe, State
from bot.store import Store
from sdjax_engine.request import Lane, Sampler
from sdjax_engine.scheduler.lane_queue import Demand, LaneShares

BATCHES_AHEAD = 2  # as in bot.worker.worker
FOREVER = 1e9  # leases that need no renewal
STEPS_KNOWN = 1.0  # seconds between heartbeats with steps
RUN_SECONDS = 0.5  # the longest run of one lane
BEGINNING = 1_000_000.0


class EveningClock:
    """Virtual seconds since the epoch."""

    def __init__(self) -> None:
        self.now = BEGINNING

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, kw_only=True)
class Size:
    """A painted size: its side in pixels, its seats, the seconds of a step of all seats."""

    side: int
    seats: int
    step_seconds: float


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A future request, and its time in seconds from the start."""

    at: float
    user_id: int
    side: int
    steps: int
    variants: int
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ShownTimes:
    """An estimate that a person was shown: when, and the seconds to the start and to the end."""

    at: float
    start: float
    end: float


@dataclass(kw_only=True)
class EveningRequest:
    """One request: its estimates, and when its pictures were started and finished."""

    wish: Wish
    job_id: str
    told: list[ShownTimes] = field(default_factory=list)
    seated_at: float | None = None
    finished_at: float | None = None

    def errors(self, *, least: float, later: bool, of_end: bool) -> list[float]:
        """Return the errors of the estimates as fractions of the wait, for waits of at least `least` seconds.

        `of_end` selects the estimates of the end, not of the start; `later` those after the first.
        """
        came = self.finished_at if of_end else self.seated_at
        if came is None:
            return []
        told = [each for each in self.told if (each.at > BEGINNING + self.wish.at) is later]
        waits = [(each.end if of_end else each.start, came - each.at) for each in told]
        return [abs(seconds - wait) / wait for seconds, wait in waits if wait >= least]


@dataclass(kw_only=True)
class SeatedImage:
    """An image on a seat."""

    claim: Claim
    at: float
    step: int = 0


class SimulatedPainter:
    """A worker with simulated devices."""

    def __init__(self, name: str, evening: SimulatedEvening) -> None:
        self.name = name
        self.busy = False
        self.hungry = True  # there may be new work or free seats since the last claim
        self._evening = evening
        self._line: dict[Lane, deque[Claim]] = {lane: deque() for lane in evening.sizes}
        self._seats: dict[Lane, list[SeatedImage]] = {lane: [] for lane in evening.sizes}
        self._shares: LaneShares[Lane] = LaneShares()

    async def announce(self) -> None:
        """Announce the lanes; the announcement never expires."""
        seats = {lane: size.seats for lane, size in self._evening.sizes.items()}
        await self._evening.store.offers.announce(self.name, lanes=list(seats), seats=seats, ttl=FOREVER)

    async def tell_steps(self) -> None:
        """Send a heartbeat with the steps."""
        steps = {seated.claim: seated.step for lane in self._seats.values() for seated in lane}
        await self._evening.store.leases.heartbeat(steps, ttl=FOREVER)

    async def turn(self) -> None:
        """Claim, seat, and run one lane; schedule itself at the end of the run."""
        await self._claim()
        for lane, line in self._line.items():
            while line and len(self._seats[lane]) < self._evening.sizes[lane].seats:
                self._seats[lane].append(SeatedImage(claim=line[0], at=self._evening.clock.now))
                self._evening.seated(line.popleft())
        wanted = {
            lane: Demand(seats=min(len(seats) + len(self._line[lane]), self._evening.sizes[lane].seats))
            for lane, seats in self._seats.items()
            if seats
        }
        self.busy = bool(wanted)
        if not wanted:
            return
        lane = self._shares.choose(wanted)
        size = self._evening.sizes[lane]
        left = min(seated.claim.steps - seated.step for seated in self._seats[lane])
        steps = max(1, min(left, int(RUN_SECONDS / size.step_seconds)))
        seconds = steps * size.step_seconds
        self._shares.charge(lane, seconds, wanted[lane].seats)
        self._evening.later(seconds, lambda: self._ran(lane, steps))

    async def _claim(self) -> None:
        room = {
            lane: BATCHES_AHEAD * size.seats - len(self._line[lane]) - len(self._seats[lane])
            for lane, size in self._evening.sizes.items()
        }
        if self.hungry and any(room.values()):
            self.hungry = False
            for claim in await self._evening.store.leases.claim(self.name, limit=room, ttl=FOREVER):
                self._line[claim.request.lane].append(claim)

    async def _ran(self, lane: Lane, steps: int) -> None:
        for seated in self._seats[lane]:
            seated.step += steps
        done = [seated for seated in self._seats[lane] if seated.step >= seated.claim.steps]
        self._seats[lane] = [seated for seated in self._seats[lane] if seated.step < seated.claim.steps]
        self.hungry = self.hungry or bool(done)
        for seated in done:
            seconds = self._evening.clock.now - seated.at
            await self._evening.store.leases.complete(seated.claim, artifact="aa/aa.png", seconds=seconds)
            self._evening.painted(seated.claim)
        await self.turn()


class SimulatedEvening:
    """Runs requests against a store and painters, and records estimates and results."""

    def __init__(
        self,
        store: Store,
        clock: EveningClock,
        *,
        sizes: Sequence[Size],
        painters: int,
        ask_again: float = 0.0,
    ) -> None:
        self.store = store
        self.clock = clock
        self.sizes = {_recipe(size.side, 1, 1).lane: size for size in sizes}
        self.asked: dict[str, EveningRequest] = {}
        self.got: list[tuple[float, int, float]] = []
        self._painters = [SimulatedPainter(f"painter-{number}", self) for number in range(painters)]
        self._ask_again = ask_again
        self._events: list[tuple[float, int, Callable[[], Awaitable[None]]]] = []
        self._order = count()
        self._steps_told = 0.0

    async def play(self, wishes: Sequence[Wish], *, until: float = FOREVER) -> None:
        """Run all events up to `until`, in seconds from the start."""
        for painter in self._painters:
            await painter.announce()
        for number, wish in enumerate(wishes, start=1):
            self.later(wish.at, self._wish(number, wish))
        while self._events and self._events[0][0] <= BEGINNING + until:
            self.clock.now, _, happen = heapq.heappop(self._events)
            await happen()

    def later(self, seconds: float, happen: Callable[[], Awaitable[None]]) -> None:
        """Schedule an event in `seconds`."""
        heapq.heappush(self._events, (self.clock.now + seconds, next(self._order), happen))

    def seated(self, claim: Claim) -> None:
        """Record when the first image of a job took a seat."""
        asked = self.asked[claim.job_id]
        if asked.seated_at is None:
            asked.seated_at = self.clock.now

    def painted(self, claim: Claim) -> None:
        """Record a painted image for its person; the last image ends the job."""
        asked = self.asked[claim.job_id]
        asked.finished_at = self.clock.now
        wish = asked.wish
        cost = claim.steps * claim.request.width * claim.request.height / 1e6
        self.got.append((self.clock.now - BEGINNING, wish.user_id, cost))

    def served(self, *, start: float, end: float) -> Counter[int]:
        """Return each person's cost of the pictures that were finished between these times."""
        served: Counter[int] = Counter()
        for at, user_id, cost in self.got:
            if start <= at < end:
                served[user_id] += cost
        return served

    def errors(self, *, least: float, later: bool, of_end: bool) -> list[float]:
        """Return the errors of all requests' estimates (see `EveningRequest.errors`)."""
        each = (asked.errors(least=least, later=later, of_end=of_end) for asked in self.asked.values())
        return [error for errors in each for error in errors]

    def _wish(self, number: int, wish: Wish) -> Callable[[], Awaitable[None]]:
        async def ask() -> None:
            recipe = _recipe(wish.side, wish.steps, wish.variants)
            job = await self.store.jobs.enqueue(recipe, origin(number, wish.user_id), weight=wish.weight)
            self.asked[job.id] = EveningRequest(wish=wish, job_id=job.id)
            await self._tell(job)
            for painter in self._painters:
                painter.hungry = True
                if not painter.busy:
                    await painter.turn()

        return ask

    async def _tell(self, job: Job) -> None:
        if not self._ask_again:
            return
        if self.clock.now - self._steps_told >= STEPS_KNOWN:
            self._steps_told = self.clock.now
            for painter in self._painters:
                await painter.tell_steps()
        position = await self.store.positions.of(job.id)
        if position.seconds is not None and position.end is not None:
            told = ShownTimes(at=self.clock.now, start=position.seconds, end=position.end)
            self.asked[job.id].told.append(told)

        async def again() -> None:
            now = await self.store.jobs.get(job.id)
            if now.state is State.WAITING:
                await self._tell(now)

        self.later(self._ask_again, again)


def busy_evening(
    *, seconds: float, sizes: Sequence[Size], painters: int, load: float, people: int, seed: int
) -> list[Wish]:
    """Return the requests of an evening that fills up, exceeds the painters' capacity, and calms down again.

    `load` is the ratio of the requested work to the capacity at the peak. A fifth of the people request as
    much as all others, and each size is requested half as often as the size before it.
    """
    chance = random.Random(seed)
    mean_steps, mean_variants = 24.0, 2.0
    liked = [2.0**-number for number in range(len(sizes))]
    image_seconds = (
        mean_steps
        * sum(part * size.step_seconds / size.seats for part, size in zip(liked, sizes, strict=True))
        / sum(liked)
    )
    most = load * painters / (image_seconds * mean_variants)
    wishes, at = [], 0.0
    while (at := at + chance.expovariate(most)) < seconds:
        if chance.random() > min(1.0, 0.3 + 2.8 * (at / seconds) * (1 - at / seconds)):
            continue
        keen = chance.random() < 0.5
        user_id = chance.randrange(people // 5) if keen else chance.randrange(people // 5, people)
        steps, variants = chance.choice((8, 20, 20, 28, 44)), chance.choice((1, 1, 1, 2, 4, 4))
        side = chance.choices(sizes, liked)[0].side
        wishes.append(Wish(at=at, user_id=user_id + 1, side=side, steps=steps, variants=variants))
    return wishes


def flood(
    *, users: Sequence[int], images: int, steps: Sequence[int], side: int, at: float = 0.0
) -> list[Wish]:
    """Return simultaneous requests of each of these people, four images each, with these steps in turn."""
    return [
        Wish(at=at, user_id=user_id, side=side, steps=steps[turn % len(steps)], variants=4)
        for turn in range(images // 4)
        for user_id in users
    ]


def origin(number: int, user_id: int) -> Origin:
    """Return the origin of the request of this number."""
    return Origin(
        interaction_id=number,
        interaction_token="x" * 200,
        token_expires_at=BEGINNING + 900,
        application_id=1,
        user_id=user_id,
        guild_id=1,
        channel_id=1,
        locale="en-US",
        private=False,
    )


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 for equal shares, 1/n if one of n has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def _recipe(side: int, steps: int, variants: int) -> Recipe:
    return Recipe(
        prompt="a red circle on a white background",
        seed=7,
        variants=variants,
        num_inference_steps=steps,
        guidance_scale=5.0,
        sampler=Sampler.DDIM,
        width=side,
        height=side,
        model="demo",
    )
