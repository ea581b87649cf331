"""Claims of reviews: a moderator who looks at a case has it for some minutes, so that two judge no case.

A claim keeps nobody from deciding by a button in Discord: the first decision stands wherever it is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import sqlalchemy as sa

from bot.domain.errors import UserMistake
from bot.domain.holds import Outcome
from bot.store.database.database import Verbs
from bot.store.rows.audit import By
from bot.store.rows.reviews import Kind, Review, readable_reviews, review_of, waits
from bot.store.tables.reviews import reviews

CLAIM_SECONDS = 300.0
RECORDED = 200  # of a person's reviews, the newest


class ReviewClaims(Verbs):
    """The verbs of claims, and of what a moderator wants to know before a decision."""

    async def claim(self, review_id: int, by: By) -> Review:
        """Claim a review for CLAIM_SECONDS; the person who has the claim may renew it.

        Raises UserMistake: `review_gone`, `review_over`, and `review_claimed` while another has it.
        """
        found = await self._row(_free(review_id, by.guild_id))
        if found is None:
            raise UserMistake("review_gone")
        mine = _unclaimed(by.actor_id, self._clock())
        claimed = await self._claim(reviews.c.id == review_id, mine, by)
        if claimed is None:
            raise UserMistake("review_over" if found.outcome is not None else "review_claimed")
        return claimed

    async def claim_next(self, by: By, *, after: int = 0, own: bool = False) -> Review | None:
        """Claim the first review of a server that nobody else has claimed: the one after the review `after`.

        The order is that of the reviews' times. After the last one comes the first one again. A person's own
        pictures are passed over unless `own`. None where nothing is left.
        """
        order = reviews.c.opened_at, reviews.c.id
        key = sa.tuple_(*order)
        here = (reviews.c.guild_id == by.guild_id) & waits() & (reviews.c.id != after)
        if not own:
            here &= reviews.c.user_id != by.actor_id
        last = sa.select(*order).where(reviews.c.id == after)
        row = await self._row(last) if after else None
        later = sa.true() if row is None else key > sa.tuple_(row.opened_at, row.id)
        for part in [later] if row is None else [later, key < sa.tuple_(row.opened_at, row.id)]:
            while True:
                free = here & part & _unclaimed(by.actor_id, self._clock())
                look = (
                    sa.select(reviews.c.id).where(free).order_by(reviews.c.opened_at, reviews.c.id).limit(1)
                )
                review_id = await self._scalar(look)
                if review_id is None:
                    break
                claimed = await self._claim(reviews.c.id == review_id, free, by)
                if claimed is not None:  # else another was faster
                    return claimed
        return None

    async def urgent_server(self) -> int | None:
        """Return the server of the review that ends first; None where nothing waits."""
        look = sa.select(reviews.c.guild_id).where(waits()).order_by(reviews.c.due_at).limit(1)
        return await self._scalar(look)

    async def record(self, guild_id: int, user_id: int) -> Mapping[Outcome | None, int]:
        """Count how the last RECORDED reviews of a person's pictures and prompts ended; None: they wait."""
        mine = (reviews.c.user_id == user_id) & (reviews.c.guild_id == guild_id)
        kinds = reviews.c.kind.in_([kind.value for kind in Kind if kind is not Kind.REFUSED])
        look = sa.select(reviews).where(mine, kinds).order_by(reviews.c.opened_at.desc()).limit(RECORDED)
        return Counter(review.outcome for review in readable_reviews(await self._rows(look)))

    async def _claim(
        self, which: sa.ColumnElement[bool], free: sa.ColumnElement[bool], by: By
    ) -> Review | None:
        until = self._clock() + CLAIM_SECONDS
        changed = sa.update(reviews).where(which, waits(), free)
        values = changed.values(claimed_by=by.actor_id, claimed_until=until).returning(*reviews.c)
        async with self._database.write() as connection:
            row = (await connection.execute(values)).one_or_none()
            return None if row is None else review_of(row)


def _free(review_id: int, guild_id: int) -> sa.Select[tuple[str | None]]:
    here = (reviews.c.id == review_id) & (reviews.c.guild_id == guild_id)
    return sa.select(reviews.c.outcome).where(here, reviews.c.kind != Kind.REFUSED.value)


def _unclaimed(user_id: int, now: float) -> sa.ColumnElement[bool]:
    """Return the condition that nobody but this person has a claim."""
    nobody = reviews.c.claimed_until.is_(None) | (reviews.c.claimed_until <= now)
    return nobody | (reviews.c.claimed_by == user_id)
