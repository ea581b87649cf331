"""Offers: which lanes and models the workers paint, and the failure of images that no worker paints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import State
from bot.store.database.database import Verbs, add_new, put
from bot.store.rows.jobs import UNREADABLE, offer_from, offer_values, tell_unreadable
from bot.store.rows.sessions import refund_in_session
from bot.store.rows.transitions import lock_jobs, move, refund, settle
from bot.store.tables.fleet import accelerators, awaited_offers
from bot.store.tables.queue import images, jobs, offered_lanes, published_offers, workers
from sdjax_engine.request import Lane, Offer

NOT_OFFERED = "not_offered"
_UNOFFERED = (images.c.state == State.WAITING) & ~sa.exists().where(offered_lanes.c.lane == images.c.lane)


class Offers(Verbs):
    """The verbs of offers."""

    async def announce(
        self,
        worker: str,
        *,
        lanes: Sequence[Lane],
        seats: int | Mapping[Lane, int],
        ttl: float,
        accelerator: str = "",
        version: str = "",
        ready: int = 0,
        hourly: int = 0,
        memory: int = 0,
    ) -> None:
        """Announce the lanes and the seats of a worker for the next `ttl` seconds.

        `seats` is one number for all lanes, or the number of each. Start times are estimated over the seats
        of all announced workers. The demand has rows for the class of its `accelerator` from now on.
        `version` is the bot's, `ready` the number of lanes whose programs are compiled, `hourly` the number
        of pictures of the last hour, `memory` the bytes of each device in use. A drained worker offers its
        lanes without a seat.
        """
        of_lane = {str(lane): seats if isinstance(seats, int) else seats[lane] for lane in lanes}
        most = seats if isinstance(seats, int) else max(seats.values(), default=0)
        facts = {"version": version, "ready": ready, "hourly": hourly, "memory": memory}
        facts["expires_at"] = self._clock() + ttl
        async with self._database.write() as connection:
            is_drained = sa.select(workers.c.drained).where(workers.c.name == worker)
            if await connection.scalar(is_drained):
                most, of_lane = 0, dict.fromkeys(of_lane, 0)
            await _offer(connection, worker, of_lane, seats=most, **facts)
            if accelerator:
                await add_new(connection, accelerators, {"name": accelerator})

    async def withdraw(self, worker: str) -> None:
        """Note that a worker begins no more images; its images wait for others from now on."""
        ended = sa.update(workers).where(workers.c.name == worker).values(expires_at=self._clock())
        await self._write(ended)

    async def is_anything_offered(self) -> bool:
        """Return whether a living worker has seats, in any lane."""
        alive = (workers.c.expires_at > self._clock()) & (workers.c.seats > 0)
        return await self._scalar(sa.select(workers.c.name).where(alive).limit(1)) is not None

    async def stand_in(self, name: str, *, lanes: Sequence[str], ttl: float) -> None:
        """Offer lanes without a seat for the next `ttl` seconds, so that their images wait for workers."""
        async with self._database.write() as connection:
            lanes_without = dict.fromkeys(lanes, 0)
            await _offer(connection, name, lanes_without, seats=0, expires_at=self._clock() + ttl)

    async def publish(self, offers: Sequence[Offer]) -> None:
        """Publish offers of models for fronts, which cannot read checkpoints; they are no longer awaited."""
        async with self._database.write() as connection:
            for offer in sorted(offers, key=lambda offer: offer.model):
                values = {"offer": offer_values(offer)}
                await put(connection, published_offers, {"model": offer.model}, values)
            there = awaited_offers.c.model.in_([offer.model for offer in offers])
            await connection.execute(sa.delete(awaited_offers).where(there))

    async def await_published(self, models: Sequence[str], *, ttl: float) -> None:
        """Ask for a worker that publishes these models: for `ttl` seconds the demand has a row of each."""
        values = {"until": self._clock() + ttl}
        async with self._database.write() as connection:
            for model in sorted(models):
                await put(connection, awaited_offers, {"model": model}, values)

    async def published(self, models: Sequence[str]) -> dict[str, Offer]:
        """Return the last published offers of these models, by name.

        A model without an offer, or with one that this version cannot read, is left out.
        """
        statement = sa.select(published_offers).where(published_offers.c.model.in_(models))
        rows = await self._rows(statement)
        found = {}
        for row in rows:
            try:
                found[row.model] = offer_from(row.offer)
            except UNREADABLE as error:
                tell_unreadable("offer of", row.model, str(error))
        return found

    async def unoffered(self) -> list[str]:
        """Return the names of the lanes that images wait for and no worker has announced."""
        statement = sa.select(images.c.lane).where(_UNOFFERED).distinct().order_by(images.c.lane)
        return await self._scalars(statement)

    async def is_offered(self, lane: Lane) -> bool:
        """Return whether an announced worker paints this lane."""
        alive = workers.c.expires_at > self._clock()
        look = sa.select(offered_lanes.c.lane).join(workers).where(offered_lanes.c.lane == str(lane), alive)
        return await self._scalar(look.limit(1)) is not None

    async def fail_unoffered(self, *, grace: float) -> int:
        """Fail images whose lane no worker has offered for `grace` seconds, and return how many.

        Their shares are refunded. Call it only after workers had `grace` seconds to announce themselves: if
        all workers were stopped, new ones may be starting. Nothing fails if the clock has jumped within that
        time.
        """
        if self._clock.undisturbed < grace:
            return 0
        now = self._clock()
        gone = workers.c.expires_at <= now - grace
        async with self._database.read() as connection:  # called often, and rarely is there anything to do
            look = sa.select(sa.exists().where(gone) | sa.exists().where(_UNOFFERED))
            if not await connection.scalar(look):
                return 0
        async with self._changing() as (connection, changes):
            await connection.execute(sa.delete(workers).where(gone))
            rows = await _abandoned(connection, before=now - grace)
            of_user: dict[int, list[Any]] = defaultdict(list)
            for row in rows:
                of_user[row.user_id].append(row)
            await connection.execute(
                move(State.FAILED, images.c.id.in_([row.id for row in rows]), failure=NOT_OFFERED)
            )
            for user_id, theirs in sorted(of_user.items()):  # one lock order for all transactions
                shares = [
                    row.share
                    for row in theirs
                    if not await refund_in_session(connection, row.job_id, [row.share])
                ]
                await refund(connection, user_id, shares)
            ended = [
                await settle(connection, job_id, now=now) for job_id in sorted({row.job_id for row in rows})
            ]
            changes.results = any(ended)
        return len(rows)


async def _offer(connection: AsyncConnection, worker: str, of_lane: Mapping[str, int], **facts: Any) -> None:
    await put(connection, workers, {"name": worker}, facts)
    mine = offered_lanes.c.worker == worker
    await connection.execute(sa.delete(offered_lanes).where(mine, offered_lanes.c.lane.not_in(of_lane)))
    for lane, count in sorted(of_lane.items()):
        await put(connection, offered_lanes, {"worker": worker, "lane": lane}, {"seats": count})


async def _abandoned(connection: AsyncConnection, *, before: float) -> list[Any]:
    old = sa.exists().where(jobs.c.id == images.c.job_id, jobs.c.created_at <= before)
    job_ids = await lock_jobs(connection, _UNOFFERED & old)
    statement = (
        sa.select(images.c.id, images.c.job_id, images.c.share, jobs.c.user_id)
        .join(jobs)
        .where(_UNOFFERED, jobs.c.id.in_(job_ids))
        .order_by(images.c.id)
        .with_for_update(of=images)
    )
    return list(await connection.execute(statement))
