"""The boards and votes of sessions, and the fronts that show them.

The front that keeps a session edits its board and sends its posts. It keeps the session for some seconds and
renews that; after its death another front takes over with a higher token, and the first changes nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.domain.jobs import Recipe, Showing, State
from bot.store.database.database import Verbs, count_of, of_row, put
from bot.store.rows.jobs import UNREADABLE, among, recipe_from, tell_unreadable
from bot.store.rows.sessions import UNCHARGED, GroupSession, Phase, lock_session, pictures_of, with_timers
from bot.store.sessions.phases import SEEN, unnumbered
from bot.store.tables.queue import images, jobs
from bot.store.tables.sessions import session_entries, session_jobs, session_votes, sessions

KEPT_AT_ONCE = 1000


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A picture of a round that is over, by its number, and its votes.

    `artifact` is None for a picture that was deleted, or `withheld`: withheld or held for review meanwhile.
    """

    round: int
    number: int
    job_id: str
    index: int
    user_id: int
    user_name: str
    recipe: Recipe
    artifact: str | None
    spoiler: bool
    votes: int
    withheld: bool = False

    @property
    def seed(self) -> int:
        """The seed of the picture."""
        first = self.recipe.from_image(self.index)
        return first.seed


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Counts of pictures in a round: by person, waiting, running, not shown, and late.

    `unseen` pictures are withheld or held for review, and `late` ones came after the end of the round.
    """

    painters: tuple[tuple[int, int], ...]
    waiting: int
    running: int
    unseen: int
    late: int = 0


class SessionShowing(Verbs):
    """The verbs of the fronts that show sessions, and of votes."""

    async def keep(self, front: str, *, ttl: float) -> list[GroupSession]:
        """Return the sessions with something left to show, which `front` shows for the next `ttl` seconds."""
        now = self._clock()
        mine = sessions.c.keeper == front
        set_back = sessions.c.kept_until > now + 2 * ttl  # the clock was set back
        free = sessions.c.keeper.is_(None) | (sessions.c.kept_until <= now) | set_back
        wanted = ~sessions.c.settled & (mine | free)
        look = sa.select(sessions).where(wanted).order_by(sessions.c.opened_at).limit(KEPT_AT_ONCE)
        async with self._database.read() as connection:
            rows = list(await connection.execute(look))
            found = await with_timers(connection, rows)
        ids = [session.id for session in found]  # others wait for a front that can read them
        if all(row.keeper == front and row.kept_until > now + ttl / 2 for row in rows if row.id in ids):
            return found
        token = sa.case((mine, sessions.c.keeper_token), else_=sessions.c.keeper_token + 1)
        ours = sa.update(sessions).where(sessions.c.id.in_(ids), wanted)
        ours = ours.values(keeper=front, kept_until=now + ttl, keeper_token=token)
        async with self._database.write() as connection:
            kept = set(await connection.scalars(ours.returning(sessions.c.id)))
            rows = list(await connection.execute(look.where(sessions.c.id.in_(kept))))
            return await with_timers(connection, rows)

    async def set_board(self, session: GroupSession, message_id: int | None) -> bool:
        """Store the board's message, or None for a deleted one; the next board gets another number."""
        boards = sessions.c.boards + (0 if message_id else 1)
        return await self._set(session, board_id=message_id, boards=boards)

    async def end(self, session: GroupSession) -> bool:
        """Record that nothing more is to be shown of a closed session."""
        return await self._set(session, settled=True)

    async def _set(self, session: GroupSession, **values: Any) -> bool:
        ours = (sessions.c.id == session.id) & (sessions.c.keeper_token == session.keeper_token)
        return bool(await self._write(sa.update(sessions).where(ours).values(values)))

    async def crowd(self, session: GroupSession) -> Crowd:
        """Return the counts of the present round; its painters are sorted by their pictures, most first."""
        here = session_jobs.join(images, images.c.job_id == session_jobs.c.job_id)
        which = (session_jobs.c.session_id == session.id) & (session_jobs.c.round == session.round)
        look = sa.select(session_jobs.c.user_id, images.c.state, images.c.showing).select_from(here)
        async with self._database.read() as connection:
            rows = list(await connection.execute(look.where(which)))
            late = await _late(connection, session)
        counts: dict[int, int] = {}
        for row in rows:
            if row.state not in UNCHARGED and row.showing is not Showing.WITHHOLD:
                counts[row.user_id] = counts.get(row.user_id, 0) + 1
        return Crowd(
            painters=tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0]))),
            waiting=sum(row.state is State.WAITING for row in rows),
            running=sum(row.state is State.RUNNING for row in rows),
            unseen=sum(row.state is State.DONE and row.showing not in SEEN for row in rows),
            late=late,
        )

    async def used(self, session: GroupSession, user_id: int) -> int:
        """Return how many pictures a person has used of the present round's quota."""
        async with self._database.read() as connection:
            return await pictures_of(connection, session.id, session.round, user_id)

    async def unseen(self, session_id: str, round_: int = 0) -> int:
        """Return how many pictures of a round, or of all, are withheld or held for review."""
        here = session_jobs.join(images, images.c.job_id == session_jobs.c.job_id)
        which = (session_jobs.c.session_id == session_id) & among(images, State.DONE)
        if round_:
            which &= session_jobs.c.round == round_
        async with self._database.read() as connection:
            return await count_of(connection, here, which, images.c.showing.not_in(SEEN))

    async def late(self, session: GroupSession) -> int:
        """Return how many pictures came after the end of the present round; 0 while people paint."""
        async with self._database.read() as connection:
            return await _late(connection, session)

    async def vote_of(self, session_id: str, round_: int, voter_id: int) -> int | None:
        """Return the number of the picture that a person has voted for in a round."""
        which = (session_votes.c.session_id == session_id) & (session_votes.c.round == round_)
        look = sa.select(session_votes.c.number).where(which, session_votes.c.voter_id == voter_id)
        return await self._scalar(look)

    async def entries(self, session_id: str, round_: int = 0) -> list[Entry]:
        """Return the numbered pictures of a round, or of all rounds, with their votes."""
        entry, vote = session_entries.c, session_votes.c
        votes = (
            sa.select(sa.func.count())
            .where(vote.session_id == entry.session_id, vote.round == entry.round)
            .where(vote.number == entry.number)
            .scalar_subquery()
        )
        look = (
            sa.select(session_entries, votes.label("votes"), images.c.artifact, images.c.showing)
            .add_columns(jobs.c.user_id, jobs.c.user_name, jobs.c.recipe)
            .join(jobs, jobs.c.id == entry.job_id)
            .join(images, (images.c.job_id == entry.job_id) & (images.c.index == entry.index))
            .where(entry.session_id == session_id)
            .order_by(entry.round, entry.number)
        )
        rows = await self._rows(look if not round_ else look.where(entry.round == round_))
        return [found for found in map(_entry, rows) if found is not None]

    async def vote(self, session_id: str, round_: int, number: int, *, voter_id: int) -> bool:
        """Store a person's vote in a round, in place of an earlier one; return whether it is the first.

        Raises UserMistake `vote_closed`, `session_paused`, `vote_gone` or `vote_own`.
        """
        async with self._telling(results=True) as connection:
            session = await lock_session(connection, session_id)
            if session.phase is not Phase.VOTING or session.round != round_:
                raise UserMistake("vote_closed")
            if session.paused:
                raise UserMistake("session_paused")
            job_id = await _votable(connection, session, number, voter_id)
            key = {"session_id": session_id, "round": round_, "voter_id": voter_id}
            mine = sa.select(session_votes.c.number).filter_by(**key)
            first = await connection.scalar(mine) is None
            given = {"number": number, "job_id": job_id}
            await put(connection, session_votes, key, given)
            return first

    async def votes_of(self, voter_id: int) -> list[dict[str, Any]]:
        """Return all votes of a person: session, round and number."""
        columns = session_votes.c.session_id, session_votes.c.round, session_votes.c.number
        look = sa.select(*columns).where(session_votes.c.voter_id == voter_id).order_by(*columns)
        return [dict(row._mapping) for row in await self._rows(look)]

    async def voters(self, session_id: str, round_: int) -> int:
        """Return how many people have voted in a round, for pictures that may be seen."""
        vote, entry = session_votes.c, session_entries.c
        of_entry = (entry.session_id == vote.session_id) & (entry.round == vote.round)
        of_image = (images.c.job_id == entry.job_id) & (images.c.index == entry.index)
        votes = session_votes.join(session_entries, of_entry & (entry.number == vote.number))
        here = (vote.session_id == session_id) & (vote.round == round_)
        async with self._database.read() as connection:
            return await count_of(connection, votes.join(images, of_image), here, images.c.showing.in_(SEEN))


async def _late(connection: AsyncConnection, session: GroupSession) -> int:
    """Count the pictures of the round that can be seen and came after it was numbered."""
    if session.phase not in (Phase.VOTING, Phase.RESTING):
        return 0
    which = (session_jobs.c.session_id == session.id) & (session_jobs.c.round == session.round)
    here = session_jobs.join(images, images.c.job_id == session_jobs.c.job_id)
    return await count_of(connection, here, which, unnumbered())


async def _votable(connection: AsyncConnection, session: GroupSession, number: int, voter_id: int) -> str:
    entry = session_entries.c
    look = (
        sa.select(entry.job_id, jobs.c.user_id, images.c.artifact, images.c.showing)
        .join(jobs, jobs.c.id == entry.job_id)
        .join(images, (images.c.job_id == entry.job_id) & (images.c.index == entry.index))
        .where(entry.session_id == session.id, entry.round == session.round, entry.number == number)
    )
    # A deletion locks the job before the votes for it. One order prevents deadlocks.
    row = (await connection.execute(look.with_for_update(of=jobs, read=True, key_share=True))).one_or_none()
    if row is None or row.artifact is None or row.showing not in SEEN:
        raise UserMistake("vote_gone")
    if row.user_id == voter_id:
        raise UserMistake("vote_own")
    job_id: str = row.job_id
    return job_id


def _entry(row: Any) -> Entry | None:
    """Return an entry of a ballot; None, logged once, for a job that this version cannot read."""
    seen = row.showing in SEEN
    try:
        recipe = recipe_from(row.recipe)
    except UNREADABLE as error:
        tell_unreadable("job", row.job_id, str(error))
        return None
    artifact, spoiler = row.artifact if seen else None, row.showing is Showing.SPOILER
    return of_row(Entry, row, recipe=recipe, artifact=artifact, spoiler=spoiler, withheld=not seen)
