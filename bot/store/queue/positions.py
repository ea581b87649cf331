"""Positions: the place of jobs in the queue, and their estimated times.

Waiting rows are only counted, in indexes: requests in the index of the fair order, images and steps in the
index of their lane.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UnknownJob
from bot.domain.jobs import Position, State
from bot.store.database.database import Shared, Verbs
from bot.store.rows import fair_order
from bot.store.rows.fair_order import Ahead, Arrival, Flow, Line, WorkerSeats, faster
from bot.store.rows.jobs import among
from bot.store.rows.pauses import OF_PAUSE
from bot.store.rows.transitions import ACTIVE
from bot.store.tables.queue import (
    images,
    jobs,
    offered_lanes,
    restrictions,
    run_times,
    virtual_clock,
    workers,
)

Point = tuple[float, int]
"""A place in an order: a tag, and an id that orders equal tags."""
Span = tuple[float, float]
"""The seconds until an image starts and until it ends."""

RECENT_IMAGES = 400
RECENT_SECONDS = 120.0
COUNTED_SECONDS = 3.0  # the age of the counts over all lanes
LEAST_SECONDS = 60.0  # the shortest time that arrivals are averaged over
NOT_WAITING = Position(place=0, ahead=0, seconds=None)
_REQUESTS = sa.tuple_(jobs.c.tag, jobs.c.interaction_id)
_IMAGES = sa.tuple_(images.c.tag, images.c.id)
_WAITS = (images.c.state == State.WAITING) & (images.c.paused == sa.false())
_WAITING_REQUESTS = sa.select(
    jobs.c.tag, jobs.c.interaction_id.label("id"), sa.literal_column("0").label("steps")
).where(jobs.c.state == State.WAITING, jobs.c.paused == sa.false())
_WAITING_WORK = sa.select(images.c.tag, images.c.id, images.c.steps).where(_WAITS)


class Positions(Verbs):
    """Places in the queue, and times to start from measured run times and announced seats."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._counted_at: float | None = None
        self._flows_then: Mapping[str, Flow] = {}

    async def of(self, job_id: str) -> Position:
        """Return the position of this job; place 0 once none of its images waits. Raises UnknownJob."""
        found = await self.of_all([job_id])
        if not found:
            raise UnknownJob(job=job_id)
        return found[job_id]

    async def of_all(self, job_ids: Sequence[str]) -> dict[str, Position]:
        """Return the positions of these jobs, if they exist; rows before several jobs are counted once."""
        # A pause of the job's own has no reason.
        reason = sa.case(
            (jobs.c.paused_alone, sa.func.coalesce(restrictions.c.reason, "")), else_=restrictions.c.reason
        )
        look = sa.select(jobs.c.id, reason.label("reason")).outerjoin(restrictions, OF_PAUSE)
        # A thread is younger than its channel, so its id is larger.
        nearest_last = look.where(jobs.c.id.in_(job_ids)).order_by(restrictions.c.channel_id)
        async with self._database.read() as connection:
            words = {row.id: row.reason for row in await connection.execute(nearest_last)}
            found = {job_id: replace(NOT_WAITING, paused=word) for job_id, word in words.items()}
            active = await _active_images(connection, list(words))
            if not active:
                return found
            first = {row.job_id: row for row in reversed(active) if row.state is State.WAITING}
            requests = [_request_point(row) for row in first.values()]
            places = await _counted(connection, _WAITING_REQUESTS, _REQUESTS, requests)
            virtual_time = await connection.scalar(sa.select(virtual_clock.c.time)) or 0.0
            recent = await _recent(connection, since=self._clock() - RECENT_SECONDS)
            flows = await self._flows(connection, recent)
            for lane, rows in groupby(sorted(active, key=_lane), key=_lane):
                of_lane = list(rows)
                waiting = [(row.tag, row.id) for row in of_lane if row.state is State.WAITING]
                waits = _WAITING_WORK.where(images.c.lane == lane)
                line, spans = await self._line(connection, lane, recent)
                outlook = _Outlook(
                    line=line,
                    spans=spans,
                    lane=lane,
                    flows=flows,
                    virtual_time=virtual_time,
                    ahead=await _counted(connection, waits, _IMAGES, waiting),
                )
                for job_id, of_job in groupby(sorted(of_lane, key=_job_id), key=_job_id):
                    place = places[_request_point(first[job_id])][0] + 1 if job_id in first else 0
                    found[job_id] = replace(outlook.position(list(of_job), place), paused=words[job_id])
        return found

    async def _line(
        self, connection: AsyncConnection, lane: str, recent: Sequence[Any]
    ) -> tuple[Line, dict[int, Span]]:
        """Return the state of a lane, and when each claimed image starts and ends, by id."""
        measured = sa.select(run_times.c.seconds_per_step, run_times.c.beside_steps)
        times = (await connection.execute(measured.where(run_times.c.lane == lane))).first()
        pace, beside_steps = (None, 0.0) if times is None else (times.seconds_per_step, times.beside_steps)
        offered = (
            sa.select(offered_lanes.c.worker, offered_lanes.c.seats)
            .join(workers)
            .where(offered_lanes.c.lane == lane, workers.c.expires_at > self._clock())
            .order_by(offered_lanes.c.worker)
        )
        running = (
            sa.select(images.c.worker, images.c.id, (images.c.steps - images.c.step).label("left"))
            .where(images.c.state == State.RUNNING, images.c.lane == lane)
            .order_by(images.c.step.desc(), images.c.tag, images.c.id)
        )
        held: dict[str, list[Any]] = defaultdict(list)
        for row in await connection.execute(running):
            held[row.worker].append(row)
        seats_by_worker: list[WorkerSeats] = []
        spans: dict[int, Span] = {}
        for worker, seats in await connection.execute(offered):
            mine = held[worker]
            worker_seats = WorkerSeats(seats=seats, running=tuple(image.left for image in mine))
            seats_by_worker.append(worker_seats)
            if worker_seats.seats > 0 and pace is not None:
                found = fair_order.spans(worker_seats, pace)
                spans |= {image.id: span for image, span in zip(mine, found, strict=True)}
        arrivals = (
            Arrival(user_id=row.user_id, steps=row.steps, lead=row.lead) for row in recent if row.lane == lane
        )
        seconds = _seconds_of(recent, self._clock())
        line = Line(
            seats_by_worker=tuple(seats_by_worker),
            pace=pace,
            beside_steps=beside_steps,
            arrivals=tuple(arrivals),
            seconds=seconds,
        )
        return line, spans

    async def _flows(self, connection: AsyncConnection, recent: Sequence[Any]) -> Mapping[str, Flow]:
        """Return the use of every active lane, counted at most every few seconds."""
        now = self._clock()
        if self._counted_at is not None and 0 <= now - self._counted_at < COUNTED_SECONDS:
            return self._flows_then
        lane = images.c.lane
        seats = (
            sa.select(offered_lanes.c.lane, sa.func.sum(offered_lanes.c.seats).label("seats"))
            .join(workers)
            .where(workers.c.expires_at > now)
            .group_by(offered_lanes.c.lane)
        )
        offered = {row.lane: row.seats for row in await connection.execute(seats)}
        paces = sa.select(run_times.c.lane, run_times.c.seconds_per_step)
        pace = {row.lane: row.seconds_per_step for row in await connection.execute(paces)}
        waits = sa.select(lane, sa.func.sum(images.c.steps).label("steps")).where(_WAITS)
        waiting = {row.lane: row.steps for row in await connection.execute(waits.group_by(lane))}
        left = sa.func.sum(images.c.steps - images.c.step).label("steps")
        runs = sa.select(lane, sa.func.count().label("images"), left).where(images.c.state == State.RUNNING)
        running = {row.lane: (row.images, row.steps) for row in await connection.execute(runs.group_by(lane))}
        inflow: Counter[str] = Counter()
        for row in recent:
            inflow[row.lane] += row.steps
        seconds = _seconds_of(recent, now)
        self._counted_at = now
        self._flows_then = {
            name: Flow(
                seats=offered[name],
                taken=min(offered[name], running.get(name, (0, 0))[0]),
                pace=pace[name],
                left=waiting.get(name, 0) + running.get(name, (0, 0))[1],
                inflow=inflow[name] / seconds,
            )
            for name in offered.keys() & pace.keys()
            if offered[name] > 0
        }
        return self._flows_then


@dataclass(frozen=True, kw_only=True)
class _Outlook:
    """The state of a lane, and the waiting work before some of its images."""

    line: Line
    spans: Mapping[int, Span]
    lane: str
    flows: Mapping[str, Flow]
    virtual_time: float
    ahead: Mapping[Point, tuple[int, int]]

    def position(self, of_job: Sequence[Any], place: int) -> Position:
        """Return the position of a job with these active images, in fair order."""
        waiting = [row for row in of_job if row.state is State.WAITING]
        ahead = self.ahead[waiting[0].tag, waiting[0].id][0] if waiting else 0
        ends = [waiting[0], waiting[-1]] if waiting else []
        spans = [self._running(row) for row in of_job if row.state is State.RUNNING]
        spans += [self._waiting(row) for row in ends]
        known = [span for span in spans if span is not None]
        if len(known) < len(spans):
            return Position(place=place, ahead=ahead, seconds=None, paused=None, **self._batch())
        start, end = min(start for start, _ in known), max(end for _, end in known)
        return Position(place=place, ahead=ahead, seconds=start, end=end, paused=None, **self._batch())

    def _batch(self) -> dict[str, int]:
        """Return how many seats the lane has, and how many of them have an image."""
        seats_by_worker = self.line.seats_by_worker
        taken = sum(min(worker_seats.seats, len(worker_seats.running)) for worker_seats in seats_by_worker)
        return {"seats": sum(worker_seats.seats for worker_seats in seats_by_worker), "taken": taken}

    def _waiting(self, row: Any) -> Span | None:
        """Return the seconds until a waiting image starts and ends."""
        images_ahead, steps = self.ahead[row.tag, row.id]
        lead = row.tag - self.virtual_time
        work = Ahead(images=images_ahead, steps=steps, lead=lead, user_id=row.user_id)
        start = fair_order.seconds_to_start(self.line, work)
        if start is None or self.line.pace is None:
            return None
        before = fair_order.steps_ahead(self.line, work)
        end = start + self.line.pace * row.steps
        return start * self._part(before), end * self._part(before + row.steps) + self.line.beside_steps

    def _running(self, row: Any) -> Span | None:
        """Return the seconds until a claimed image starts and ends."""
        if row.id not in self.spans:
            return None
        start, end = self.spans[row.id]
        part = self._part(fair_order.steps_ahead(self.line, Ahead(images=0, steps=0)))
        return start * part, end * part + self.line.beside_steps

    def _part(self, steps: float) -> float:
        """Return the ratio of the expected seconds of so many steps to those at the lane's present pace."""
        return faster(self.lane, steps, self.flows) if self.lane in self.flows else 1.0


def _seconds_of(recent: Sequence[Any], now: float) -> float:
    return max(LEAST_SECONDS, now - min((row.created_at for row in recent), default=now))


async def _recent(connection: AsyncConnection, *, since: float) -> list[Any]:
    """Return the newest images that were enqueued since then."""
    newest = (
        sa.select(images.c.job_id, images.c.lane, images.c.steps, images.c.lead)
        .order_by(images.c.id.desc())
        .limit(RECENT_IMAGES)
        .subquery()
    )
    columns = newest.c.lane, newest.c.steps, newest.c.lead, jobs.c.user_id, jobs.c.created_at
    statement = sa.select(*columns).join(jobs, jobs.c.id == newest.c.job_id).where(jobs.c.created_at >= since)
    return list(await connection.execute(statement))


async def _active_images(connection: AsyncConnection, job_ids: Sequence[str]) -> list[Any]:
    """Return the running images of these jobs, and the waiting images that are not paused, in fair order."""
    columns = images.c.id, images.c.job_id, images.c.tag, images.c.lane, images.c.state, images.c.steps
    waits_in_pause = among(images, State.WAITING) & images.c.paused
    statement = (
        sa.select(*columns, jobs.c.interaction_id, jobs.c.user_id)
        .join(jobs)
        .where(images.c.job_id.in_(job_ids), among(images, *ACTIVE), ~waits_in_pause)
        .order_by(images.c.tag, images.c.id)
    )
    return list(await connection.execute(statement))


def _request_point(row: Any) -> Point:
    return row.tag, row.interaction_id


def _lane(row: Any) -> str:
    lane: str = row.lane
    return lane


def _job_id(row: Any) -> str:
    job_id: str = row.job_id
    return job_id


async def _counted(
    connection: AsyncConnection,
    rows: sa.Select[Any],
    order: sa.Tuple,
    points: Iterable[Point],
) -> dict[Point, tuple[int, int]]:
    """Return how many rows are before each of these points in this order, and the sum of their steps.

    `rows` selects their place and steps. The rows before the first point are counted by the database, the
    others here: a statement for each point would take longer.
    """
    bounds = sorted(set(points))
    if not bounds:
        return {}
    first, last = sa.tuple_(*bounds[0]), sa.tuple_(*bounds[-1])
    before = rows.where(order < first).subquery()
    summed = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(before.c.steps), 0))
    count, steps = (await connection.execute(summed.select_from(before))).one()
    found = {bounds[0]: (count, steps)}
    if len(bounds) == 1:
        return found
    between = await connection.execute(rows.where(order >= first, order < last).order_by(*order.clauses))
    following = iter(bounds[1:])
    point = next(following)
    for row in between:
        while (row.tag, row.id) >= point:
            found[point], point = (count, steps), next(following)
        count, steps = count + 1, steps + row.steps
    return found | dict.fromkeys([point, *following], (count, steps))
