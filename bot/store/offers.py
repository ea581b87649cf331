"""Verbs about what workers offer to paint, and what becomes of images that none of them does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.jobs import State
from bot.store.database import Verbs, insert
from bot.store.rows import offer_from, offer_values
from bot.store.tables import images, jobs, offered_lanes, published_offers, workers
from bot.store.transitions import lock_jobs, move, refund, settle
from sdjax_engine.request import Lane, Offer

NOT_OFFERED = "not_offered"
_UNOFFERED = (images.c.state == State.WAITING) & ~sa.exists().where(offered_lanes.c.lane == images.c.lane)


class Offers(Verbs):
    """What workers say of themselves, and what follows from it."""

    async def announce(
        self, worker: str, *, lanes: Sequence[Lane], seats: int | Mapping[Lane, int], ttl: float
    ) -> None:
        """Say which lanes this worker paints, and how many images at a time, for the next `ttl` seconds.

        `seats` are as many for all lanes, or those of each. Times to start are estimated over the seats of
        all workers that are announced.
        """
        of_lane = {str(lane): seats if isinstance(seats, int) else seats[lane] for lane in lanes}
        most = seats if isinstance(seats, int) else max(seats.values(), default=0)
        values = {"seats": most, "expires_at": self._clock() + ttl}
        async with self._database.write() as connection:
            await connection.execute(
                insert(connection, workers)
                .values(name=worker, **values)
                .on_conflict_do_update(index_elements=[workers.c.name], set_=values)
            )
            await _offer(connection, worker, of_lane)

    async def publish(self, offers: Sequence[Offer]) -> None:
        """Say what these models are offered with, for fronts that cannot read their checkpoints."""
        async with self._database.write() as connection:
            for offer in sorted(offers, key=lambda offer: offer.model):
                values = {"offer": offer_values(offer)}
                await connection.execute(
                    insert(connection, published_offers)
                    .values(model=offer.model, **values)
                    .on_conflict_do_update(index_elements=[published_offers.c.model], set_=values)
                )

    async def published(self, models: Sequence[str]) -> dict[str, Offer]:
        """What was last published of these models, by their names; nothing of those that never were."""
        statement = sa.select(published_offers).where(published_offers.c.model.in_(models))
        async with self._database.read() as connection:
            return {row.model: offer_from(row.offer) for row in await connection.execute(statement)}

    async def unoffered(self) -> list[str]:
        """The lanes, by name, that images wait for and no worker has announced."""
        statement = sa.select(images.c.lane).where(_UNOFFERED).distinct().order_by(images.c.lane)
        async with self._database.read() as connection:
            return list(await connection.scalars(statement))

    async def is_offered(self, lane: Lane) -> bool:
        """Whether a worker that is announced paints this lane."""
        alive = workers.c.expires_at > self._clock()
        look = sa.select(offered_lanes.c.lane).join(workers).where(offered_lanes.c.lane == str(lane), alive)
        async with self._database.read() as connection:
            return await connection.scalar(look.limit(1)) is not None

    async def fail_unoffered(self, *, grace: float) -> int:
        """Fail what has waited for `grace` seconds for a lane that no worker has offered for as long.

        Returns how many images that were; they cost their users nothing. Call it once workers had `grace`
        seconds to announce themselves: after a stop of them all, the first to be back is not the last.
        Nothing fails when the clock has jumped within that time.
        """
        if self._clock.undisturbed < grace:
            return 0
        now = self._clock()
        async with self._changing() as (connection, changes):
            await connection.execute(sa.delete(workers).where(workers.c.expires_at <= now - grace))
            rows = await _abandoned(connection, before=now - grace)
            of_user: dict[int, list[float]] = defaultdict(list)
            for row in rows:
                of_user[row.user_id].append(row.share)
            await connection.execute(
                move(State.FAILED, images.c.id.in_([row.id for row in rows]), failure=NOT_OFFERED)
            )
            for user_id, shares in sorted(of_user.items()):  # one order for everybody: no two wait in a ring
                await refund(connection, user_id, shares)
            ended = [
                await settle(connection, job_id, now=now) for job_id in sorted({row.job_id for row in rows})
            ]
            changes.results = any(ended)
        return len(rows)


async def _offer(connection: AsyncConnection, worker: str, seats: Mapping[str, int]) -> None:
    mine = offered_lanes.c.worker == worker
    await connection.execute(sa.delete(offered_lanes).where(mine, offered_lanes.c.lane.not_in(seats)))
    if seats:
        offered = insert(connection, offered_lanes)
        rows = [{"worker": worker, "lane": name, "seats": count} for name, count in sorted(seats.items())]
        await connection.execute(
            offered.values(rows).on_conflict_do_update(
                index_elements=[offered_lanes.c.worker, offered_lanes.c.lane],
                set_={"seats": offered.excluded.seats},
            )
        )


async def _abandoned(connection: AsyncConnection, *, before: float) -> list[Any]:
    old = sa.select(jobs.c.id).where(jobs.c.created_at <= before)
    job_ids = await lock_jobs(connection, _UNOFFERED & images.c.job_id.in_(old))
    statement = (
        sa.select(images.c.id, images.c.job_id, images.c.share, jobs.c.user_id)
        .join(jobs)
        .where(_UNOFFERED, jobs.c.id.in_(job_ids))
        .order_by(images.c.id)
        .with_for_update(of=images)
    )
    return list(await connection.execute(statement))
