"""Images whose lease was lost: each is painted again, but one at a time by each worker.

A worker's death touches all that it held, and one image of these at most is its cause. That may be an image
of which nobody had heard yet that it was begun. Claimed together again, the cause would take the others down
with it a second time, and the second time is the last.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.jobs import State
from bot.store.tables import SUSPECTED, images
from bot.store.transitions import ACTIVE, among

_KNOWN = (
    sa.select(images.c.id, images.c.state, images.c.worker, images.c.lane)
    .where(SUSPECTED, among(images, *ACTIVE))
    .order_by(images.c.tag, images.c.id)
)


async def claimable(
    connection: AsyncConnection, worker: str, lanes: Collection[str] | None
) -> sa.ColumnElement[bool]:
    """Which waiting images this worker may claim: the unsuspected, and a suspect of `lanes` if it holds none.

    `lanes` are those that it has room in, by name; None for all. Suspects come in fair order.
    """
    suspects = list(await connection.execute(_KNOWN))
    if not suspects:
        return sa.true()
    if any(each.state is State.RUNNING and each.worker == worker for each in suspects):
        return ~SUSPECTED
    waiting = (each for each in suspects if each.state is State.WAITING)
    first = next((each.id for each in waiting if lanes is None or each.lane in lanes), None)
    return ~SUSPECTED if first is None else ~SUSPECTED | (images.c.id == first)
