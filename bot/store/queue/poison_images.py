"""Poison images: images that lost a lease. A worker retries one of them at a time.

When a worker dies, every image that it held lost its lease, and at most one of these images killed it. The
store cannot tell which one: the worker may have died before it reported that the image had begun. If
they were claimed together again, the worker's second death would fail the other images too.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import State
from bot.store.rows.jobs import among
from bot.store.rows.transitions import ACTIVE
from bot.store.tables.queue import MAYBE_POISON, images

_POISON_IMAGES = (
    sa.select(images.c.id, images.c.state, images.c.worker, images.c.lane, images.c.paused)
    .where(MAYBE_POISON, among(images, *ACTIVE))
    .order_by(images.c.tag, images.c.id)
)


async def claimable(
    connection: AsyncConnection, worker: str, lanes: Collection[str] | None
) -> sa.ColumnElement[bool]:
    """Return the condition for images that this worker may claim: no poison image, or one if it holds none.

    `lanes` names the lanes that the worker has room in; None means all. The poison image is the first one of
    these lanes in fair order.
    """
    poison = list(await connection.execute(_POISON_IMAGES))
    if not poison:
        return sa.true()
    if any(each.state is State.RUNNING and each.worker == worker for each in poison):
        return ~MAYBE_POISON
    waiting = (each for each in poison if each.state is State.WAITING and not each.paused)
    first = next((each.id for each in waiting if lanes is None or each.lane in lanes), None)
    return ~MAYBE_POISON if first is None else ~MAYBE_POISON | (images.c.id == first)
