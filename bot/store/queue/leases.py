"""Leases of images: workers claim images, renew the leases, and end them.

A lease is (image, fencing token, time). Each claim raises the image's token, and every later verb names the
token of its claim, so a claim that was replaced changes nothing. Every verb names the job too, because SQLite
reuses the ids of deleted rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.channels import ChannelKind
from bot.domain.errors import StaleLease
from bot.domain.jobs import Claim, Job, Notes, Showing, State
from bot.store.database.database import SETTLING_SECONDS, Verbs
from bot.store.queue.poison_images import claimable
from bot.store.rows import fair_order
from bot.store.rows.device_time import Spent, WorkerClass, add_device_time, is_recorded, record_run
from bot.store.rows.hashes import NO_HASHES, Hashes, note_hashes
from bot.store.rows.jobs import among, load_job, readable_rows, recipe_from, showings_from
from bot.store.rows.pauses import IS_PAUSED
from bot.store.rows.previews import put_previews
from bot.store.rows.transitions import ACTIVE, lock_job, lock_jobs, move, settle
from bot.store.tables.queue import images, jobs, virtual_clock, workers
from sdjax_engine.request import Lane

WORKER_DIED = "worker_died"
MAX_WORKER_DEATHS = 2  # of an image that the devices had begun
MAX_LOST_LEASES = 4  # of an image; it may kill its worker before a heartbeat reports that it was begun
FURTHEST_LEASE = 2 * 3600.0  # the longest that may be configured is an hour
NO_TROUBLES: Mapping[Claim, str] = {}
NO_PREVIEWS: Mapping[Claim, bytes] = {}
NEXT = (images.c.state == State.WAITING) & (images.c.paused == sa.false())
"""The condition for images that may be claimed."""


class Leases(Verbs):
    """The verbs of workers."""

    async def claim(self, worker: str, *, limit: int | Mapping[Lane, int], ttl: float) -> list[Claim]:
        """Lease the first waiting images in fair order for `ttl` seconds; empty when none waits.

        `limit` is the number of images, over all lanes or by lane; images of other lanes are not claimed. A
        limit of 0 means that the worker paints the lane but has no free seat: virtual time does not pass the
        lane's first image. A worker gets poison images one at a time.
        """
        now = self._clock()
        async with self._database.write() as connection:
            rows, left = await _first_images(connection, worker, limit)
            if not rows:
                return []
            tokens = await _lease(connection, [row.id for row in rows], worker=worker, expires_at=now + ttl)
            rows = [row for row in rows if row.id in tokens]
            await _begin(connection, {row.job_id for row in rows}, now=now)
            await _advance_clock(connection, [row.tag for row in rows], left)
        return [_claim(row, tokens[row.id], now=now, ttl=ttl) for row in rows]

    async def heartbeat(
        self,
        claims_with_steps: Mapping[Claim, int],
        *,
        ttl: float,
        begun: Collection[Claim] = (),
        troubles: Mapping[Claim, str] = NO_TROUBLES,
        previews: Mapping[Claim, bytes] = NO_PREVIEWS,
    ) -> set[int]:
        """Renew leases, and store each image's step and the reason why an image in `troubles` was restarted.

        `previews` are new small pictures of images, as WebP files. `begun` are the images that the devices
        have worked on; an image with a step is among them. Returns the ids of images whose lease was lost or
        which were cancelled: stop painting them.
        """
        if not claims_with_steps:
            return set()
        steps = {claim.image_id: step for claim, step in claims_with_steps.items()}
        told = {claim.image_id: trouble for claim, trouble in troubles.items()}
        started = {claim.image_id for claim, step in claims_with_steps.items() if step or claim in begun}
        leases = [(claim.image_id, claim.job_id, claim.fencing_token) for claim in claims_with_steps]
        lease = sa.tuple_(images.c.id, images.c.job_id, images.c.fencing_token)
        ours = lease.in_(leases), images.c.state == State.RUNNING
        look = sa.select(images.c.id).where(*ours).order_by(images.c.id).with_for_update()
        async with self._database.write() as connection:
            kept = list(await connection.scalars(look))  # in the lock order of all transactions
            if kept:
                step = sa.case({image_id: steps[image_id] for image_id in kept}, value=images.c.id)
                values = {
                    "lease_expires_at": self._clock() + ttl,
                    "step": step,
                    "furthest": sa.case((images.c.furthest < step, step), else_=images.c.furthest),
                    "begun": images.c.begun | images.c.id.in_(started),
                    "trouble": _by_image({image_id: told.get(image_id) for image_id in kept}),
                }
                await connection.execute(sa.update(images).where(images.c.id.in_(kept)).values(values))
                shown = {claim.image_id: picture for claim, picture in previews.items()}
                await put_previews(connection, {image: shown[image] for image in kept if image in shown})
        return steps.keys() - set(kept)

    async def complete(
        self,
        claim: Claim,
        *,
        artifact: str | None,
        seconds: float,
        pace: float | None = None,
        notes: Notes | None = None,
        showing: Showing = Showing.SHOW,
        hashes: Hashes = NO_HASHES,
        worker_class: WorkerClass | None = None,
        spent: Spent | None = None,
    ) -> Job:
        """End a painted image whose file is stored; `notes` are the facts found.

        `seconds` is how long it ran; a step of it took `pace` seconds, None where that was not measured. Both
        enter the run times, the seconds also those of `worker_class`. Like the other verbs that end an
        attempt, this adds the devices' time that was `spent`.

        A withheld image may have no `artifact`. A job with a `hold` holds each picture that is not withheld.
        The job's last image ends the job and makes its result due, in the same transaction. Raises
        StaleLease, and changes nothing, when another claim has the image.
        """
        kept: dict[str, Any] = {} if notes is None else {"notes": asdict(notes)}
        shown: Any = showing if showing is Showing.WITHHOLD else _unless_held(claim, showing)
        kept |= {"artifact": artifact, "showing": shown}
        kept |= {
            "ran": seconds,
            "pace": pace,
            "worker_class": worker_class,
            "hashes": hashes,
            "spent": spent,
        }
        return await self._end(claim, State.DONE, step=claim.steps, **kept)

    async def fail(self, claim: Claim, *, failure: str, spent: Spent | None = None) -> Job:
        """End an image that cannot be painted; the job's other images go on. Raises StaleLease."""
        return await self._end(claim, State.FAILED, spent=spent, failure=failure)

    async def give_back(self, claim: Claim, *, spent: Spent | None = None) -> None:
        """Put the image back to its place in the queue. Raises StaleLease."""
        await self._end(claim, State.WAITING, spent=spent, step=0)

    async def abandon(self, claim: Claim, *, spent: Spent | None = None) -> None:
        """Put back an image after an engine failure; it fails the second time, as after a worker's death.

        When another claim has the image, only the time is added.
        """
        await self._take_back(_ours(claim), begun=sa.true(), attempt=(claim, spent))

    async def expire(self, *, longest: float = FURTHEST_LEASE) -> int:
        """Take back expired leases, as after the death of a worker, and return how many.

        The second death of a worker fails an image that the devices had begun. An image that was not begun
        fails with its fourth lost lease.

        A lease that ends more than `longest` seconds from now was written before the clock was set back, by a
        worker that has not renewed it since: it counts as expired. Soon after a jump of the clock no lease is
        taken back, so that living workers renew theirs first.
        """
        await self._shared.tell_time()
        if self._clock.undisturbed < SETTLING_SECONDS:
            return 0
        now, ends = self._clock(), images.c.lease_expires_at
        return await self._take_back((ends <= now) | (ends > now + longest))

    async def recover(self, worker: str) -> int:
        """Take back the images that an earlier process of this worker held, and return how many.

        A worker calls this at its start, so that no image waits for an old lease to expire. Two living
        workers must not have the same name.
        """
        return await self._take_back(images.c.worker == worker)

    async def _end(
        self,
        claim: Claim,
        to: State,
        *,
        ran: float | None = None,
        pace: float | None = None,
        worker_class: WorkerClass | None = None,
        hashes: Hashes = NO_HASHES,
        spent: Spent | None = None,
        **values: Any,
    ) -> Job:
        async with self._changing() as (connection, changes):
            await lock_job(connection, claim.job_id)
            await _end_lease(connection, claim, to, **values)
            await note_hashes(connection, claim.job_id, claim.image_id, hashes)
            changes.results = await settle(connection, claim.job_id, now=self._clock())
            changes.work = to is State.WAITING
            job = await load_job(connection, claim.job_id)
            if ran is not None:
                await record_run(connection, claim, ran, pace, worker_class)
            if spent is not None:
                pictures = int(to is State.DONE)
                await add_device_time(connection, claim, spent, now=self._clock(), pictures=pictures)
        return job

    async def _take_back(
        self,
        which: sa.ColumnElement[bool],
        *,
        begun: sa.ColumnElement[bool] = images.c.begun,
        attempt: tuple[Claim, Spent | None] | None = None,
    ) -> int:
        now = self._clock()
        async with self._changing() as (connection, changes):
            rows = await _lost_leases(connection, which)
            lost = images.c.id.in_([row.id for row in rows])
            deaths = images.c.worker_deaths + sa.case((begun, 1), else_=0)
            losses = images.c.leases_lost + 1
            guilty = (deaths >= MAX_WORKER_DEATHS) | (losses >= MAX_LOST_LEASES)
            counted: dict[str, Any] = {"worker_deaths": deaths, "leases_lost": losses}
            if attempt is not None:
                counted["worker"] = None  # it has ended the attempt itself: see `is_recorded`
            await connection.execute(move(State.FAILED, lost & guilty, failure=WORKER_DIED, **counted))
            await connection.execute(move(State.WAITING, lost, step=0, **counted))
            ended = [
                await settle(connection, job_id, now=now) for job_id in sorted({row.job_id for row in rows})
            ]
            changes.work, changes.results = bool(rows), any(ended)
            if attempt is None or attempt[1] is None:
                return len(rows)
            if rows or not await is_recorded(connection, attempt[0]):
                await add_device_time(connection, attempt[0], attempt[1], now=now)
        return len(rows)


def _by_image(texts: Mapping[int, str | None]) -> sa.Case[str | None] | None:
    """Return the text of each image as SQL; None where no image has a text."""
    said = {image_id: text for image_id, text in texts.items() if text is not None}
    return sa.case(said, value=images.c.id, else_=sa.null()) if said else None


def _unless_held(claim: Claim, showing: Showing) -> sa.Case[Any]:
    """Return how a picture is shown, as SQL: held, if its job has a hold."""
    held = sa.exists().where(jobs.c.id == claim.job_id, jobs.c.hold.is_not(None))
    kinds = (sa.literal(each, type_=images.c.showing.type) for each in (Showing.HOLD, showing))
    return sa.case((held, next(kinds)), else_=next(kinds))


def _ours(claim: Claim) -> sa.ColumnElement[bool]:
    image = (images.c.id == claim.image_id) & (images.c.job_id == claim.job_id)
    return image & (images.c.fencing_token == claim.fencing_token)


async def _end_lease(connection: AsyncConnection, claim: Claim, to: State, **values: Any) -> None:
    running = images.c.state == State.RUNNING
    values = {**values, "worker": None, "lease_expires_at": None}
    changed = await connection.execute(move(to, _ours(claim) & running, **values))
    if not changed.rowcount:
        raise StaleLease(f"image {claim.image_id} of job {claim.job_id} is not ours any more")


async def _first_images(
    connection: AsyncConnection, worker: str, limit: int | Mapping[Lane, int]
) -> tuple[list[Any], list[float]]:
    """Return the images to claim, in fair order, and for each lane the tag of the next waiting image."""
    rooms = {} if isinstance(limit, int) else {str(lane): room for lane, room in limit.items()}
    lanes = None if isinstance(limit, int) else {name for name, room in rooms.items() if room}
    is_drained = sa.select(workers.c.drained).where(workers.c.name == worker)
    if await connection.scalar(is_drained):  # it finishes what it has
        return [], []
    ours = await claimable(connection, worker, lanes)
    # Both rows are locked without waiting, so a claim is never part of a deadlock.
    first = (
        sa.select(images.c.id, images.c.job_id, images.c.index.label("number"), images.c.tag)
        .add_columns(jobs.c.recipe, jobs.c.guild_id, jobs.c.external, jobs.c.channel_kind, jobs.c.policy)
        .add_columns(jobs.c.created_at, jobs.c.traceparent)
        .join(jobs)
        .where(NEXT, ~IS_PAUSED, ours)
        .order_by(images.c.tag, images.c.id)
        .with_for_update(skip_locked=True, of=[images, jobs])
    )
    if isinstance(limit, int):
        looks = [(first, limit)]
    else:
        # One index look-up for each lane; an IN over lanes would sort all waiting images.
        waiting = await waiting_lanes(connection)
        looks = [(first.where(images.c.lane == name), rooms[name]) for name in waiting if name in rooms]
    rows: list[Any] = []
    left: list[float] = []
    for look, room in looks:
        found = await readable_rows(connection, look, limit=room + 1)
        rows += found[:room]
        left += [row.tag for row in found[room:]]
    return sorted(rows, key=lambda row: (row.tag, row.id)), left


async def waiting_lanes(connection: AsyncConnection) -> list[str]:
    """Return the names of the lanes in which images may be claimed, with one step in the index for each."""
    lanes = sa.select(sa.func.min(images.c.lane).label("lane")).where(NEXT).cte(recursive=True)
    following = sa.select(sa.func.min(images.c.lane)).where(NEXT, images.c.lane > lanes.c.lane)
    lanes = lanes.union_all(sa.select(following.scalar_subquery()).where(lanes.c.lane.is_not(None)))
    return list(await connection.scalars(sa.select(lanes.c.lane).where(lanes.c.lane.is_not(None))))


async def _lease(
    connection: AsyncConnection, image_ids: Sequence[int], *, worker: str, expires_at: float
) -> dict[int, int]:
    token = images.c.fencing_token + 1
    lease = {"worker": worker, "lease_expires_at": expires_at, "fencing_token": token}
    reset = {"step": 0, "begun": False, "trouble": None}
    leased = move(State.RUNNING, images.c.id.in_(image_ids), **reset, **lease)
    statement = leased.returning(images.c.id, images.c.fencing_token)
    return {row.id: row.fencing_token for row in await connection.execute(statement)}


async def _begin(connection: AsyncConnection, job_ids: Iterable[str], *, now: float) -> None:
    """Move jobs to running: a job runs as soon as one of its images does."""
    started = {"state": State.RUNNING, "started_at": sa.func.coalesce(jobs.c.started_at, now)}
    which = jobs.c.id.in_(sorted(job_ids)), among(jobs, *ACTIVE)
    await connection.execute(sa.update(jobs).where(*which).values(started))


async def _advance_clock(
    connection: AsyncConnection, claimed: Sequence[float], waiting: Sequence[float]
) -> None:
    """Advance virtual time to the claimed images, unless another claim has locked the row of virtual time.

    Claims would otherwise wait for each other's commits. The next claim makes up for an advance left out.
    """
    time = fair_order.advance(0.0, claimed, waiting)
    behind = sa.select(virtual_clock.c.id).where(virtual_clock.c.time < time)
    free = behind.with_for_update(skip_locked=True)
    await connection.execute(sa.update(virtual_clock).where(virtual_clock.c.id.in_(free)).values(time=time))


def _claim(row: Any, fencing_token: int, *, now: float, ttl: float) -> Claim:
    recipe = recipe_from(row.recipe)
    return Claim(
        image_id=row.id,
        job_id=row.job_id,
        request=recipe.request(row.number),
        steps=recipe.steps,
        given=recipe.given,
        guild_id=None if row.external else row.guild_id,
        channel_kind=ChannelKind(row.channel_kind),
        showings=showings_from(row.policy),
        fencing_token=fencing_token,
        expires_at=now + ttl,
        enqueued_at=row.created_at,
        claimed_at=now,
        traceparent=row.traceparent,
    )


async def _lost_leases(connection: AsyncConnection, which: sa.ColumnElement[bool]) -> list[Any]:
    lost = (images.c.state == State.RUNNING) & which
    # Wait for locked rows: a process that has just died may hold locks for a moment.
    job_ids = await lock_jobs(connection, lost)
    statement = sa.select(images.c.id, images.c.job_id).where(lost, images.c.job_id.in_(job_ids))
    return list(await connection.execute(statement.order_by(images.c.id).with_for_update()))
