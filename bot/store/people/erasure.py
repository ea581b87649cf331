"""Erasure: the deletion of all rows of one person or one server, and when servers removed the bot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import Job
from bot.store.database.database import Verbs, add_new
from bot.store.files.picture_files import files_of, is_copy, let_go_unneeded
from bot.store.people.preferences import Scope
from bot.store.rows.audit import erased_number, replace_person
from bot.store.rows.jobs import load_jobs
from bot.store.rows.restrictions import OF_ANY_KIND, Kind
from bot.store.rows.reviews import erase_from_reviews, withdraw
from bot.store.rows.revisions import forget_server, hold_server
from bot.store.rows.transitions import ACTIVE, cancel_images
from bot.store.tables.fleet import device_time
from bot.store.tables.logins import logins
from bot.store.tables.pictures import blocked_pictures
from bot.store.tables.policies import automod, policies, server_revisions
from bot.store.tables.queue import (
    ENDED,
    OWN,
    departures,
    favourites,
    images,
    jobs,
    last_tags,
    preferences,
    prompt_rules,
    restrictions,
    start_pictures,
    styles,
    turns,
    wildcards,
)
from bot.store.tables.reviews import reports, review_settings, reviews
from bot.store.tables.sessions import session_tags, session_votes, sessions

_KEPT = (
    styles,
    wildcards,
    prompt_rules,
    automod,
    policies,
    restrictions,
    sessions,
    reviews,
    reports,
    review_settings,
)
OF_SERVERS = (jobs, preferences, blocked_pictures, server_revisions, *_KEPT)
"""The tables with rows that go with a server."""
_GROWING: Mapping[sa.Column[Any], int] = {sessions.c.id: 10, reports.c.job_id: 500, reviews.c.id: 500}
"""Keys of tables that grow, and how many go in one transaction; a session goes with all its votes."""
SERVERS_AT_ONCE = 1000  # a statement of SQLite or PostgreSQL takes about 32,000 values


class Erasure(Verbs):
    """The verbs of erasure."""

    async def job_ids_of(
        self, *, user_id: int | None = None, guild_id: int | None = None, limit: int
    ) -> list[str]:
        """Return ids of jobs of a person or of a server, in any state; active ones and the newest first."""
        async with self._database.read() as connection:
            job_ids: list[str] = []
            for look in _jobs_of(user_id=user_id, guild_id=guild_id):
                job_ids += await connection.scalars(look.limit(limit - len(job_ids)))
        return job_ids

    async def person_of(self, job_id: str) -> int | None:
        """Return the person who asked for a job; None where the job is not stored."""
        look = sa.select(jobs.c.user_id).where(jobs.c.id == job_id)
        return await self._scalar(look)

    async def copies_of(self, job_ids: Collection[str], *, limit: int) -> list[str]:
        """Return ids of copies of these jobs, and of their copies, of any person, that have no copies."""
        below = sa.select(jobs.c.id).where(jobs.c.parent_id.in_(job_ids), is_copy(jobs))
        tree = below.cte("below", recursive=True)
        deeper, copy = jobs.alias(), jobs.alias()
        further = sa.select(deeper.c.id).join(tree, deeper.c.parent_id == tree.c.id).where(is_copy(deeper))
        tree = tree.union(further)
        last = ~sa.exists().where(copy.c.parent_id == tree.c.id, is_copy(copy))
        return await self._scalars(sa.select(tree.c.id).where(last).limit(limit))

    async def readable(self, job_ids: Sequence[str]) -> list[Job]:
        """Return the jobs of these ids that this version can read."""
        async with self._database.read() as connection:
            return await load_jobs(connection, job_ids)

    async def files_sent(self, job_ids: Collection[str]) -> set[str]:
        """Return the start pictures sent with these jobs, without those of jobs that they repeat."""
        theirs = sa.select(start_pictures.c.artifact).where(start_pictures.c.job_id.in_(job_ids))
        return set(await self._scalars(theirs.where(start_pictures.c.source == OWN)))

    async def erase(self, job_ids: Collection[str], *, unless_copied: bool = False) -> list[str]:
        """Delete the rows of these jobs, in any state; workers stop painting them.

        With `unless_copied` a job stays that has a copy which is none of these jobs: see `copies_of`. Returns
        the files that nothing else needs: the caller deletes them and calls `files.note_deleted`.
        """
        now = self._clock()
        which = sa.select(jobs.c.id).where(jobs.c.id.in_(job_ids)).order_by(jobs.c.id)
        async with self._telling(cancelled=True) as connection:
            locked = list(await connection.scalars(which.with_for_update()))
            if unless_copied:  # a new copy locks its job first
                further = jobs.c.parent_id.in_(locked) & is_copy(jobs) & jobs.c.id.not_in(locked)
                copied = set(await connection.scalars(sa.select(jobs.c.parent_id).where(further)))
                locked = [job_id for job_id in locked if job_id not in copied]
            # All at once and in the order of heartbeats, which lock images of several jobs.
            theirs = sa.select(images.c.id).where(images.c.job_id.in_(locked)).order_by(images.c.id)
            await connection.execute(theirs.with_for_update())
            whose = sa.select(jobs.c.user_id).where(jobs.c.id.in_(locked))  # a refund locks its person
            persons = sa.select(last_tags.c.user_id).where(last_tags.c.user_id.in_(whose))
            await connection.execute(persons.order_by(last_tags.c.user_id).with_for_update())
            for job_id in locked:
                await cancel_images(connection, job_id, now=now)  # images that never ran are refunded
            names = await files_of(connection, locked)
            await withdraw(connection, locked, now=now)
            await connection.execute(sa.delete(jobs).where(jobs.c.id.in_(locked)))
            return await let_go_unneeded(connection, names, now=now)

    async def erase_share(self, user_id: int) -> None:
        """Delete a person's place in the fair order, unless the person has asked for something meanwhile.

        What never ran is refunded, so a place that is far ahead was earned in a lane that had room.
        """
        idle = ~sa.exists().where(jobs.c.user_id == user_id)
        await self._write(sa.delete(last_tags).where(last_tags.c.user_id == user_id, idle))

    async def erase_preferences(self, *, user_id: int | None = None, guild_id: int | None = None) -> None:
        """Delete the preferences and favourites of one person, or all that a server and its channels keep."""
        of_person = (preferences.c.scope == Scope.ME.value) & (preferences.c.owner_id == user_id)
        which = preferences.c.guild_id == guild_id if user_id is None else of_person
        if guild_id is not None:
            for key, few in _GROWING.items():
                await self._erase_in_steps(key, guild_id, few)
        async with self._database.write() as connection:
            await connection.execute(sa.delete(preferences).where(which))
            if user_id is not None:
                await connection.execute(sa.delete(favourites).where(favourites.c.user_id == user_id))
                await connection.execute(sa.delete(logins).where(logins.c.user_id == user_id))
            if guild_id is not None:
                await hold_server(connection, guild_id)
                for kept in (blocked_pictures, *_KEPT):
                    mine = (kept.c.guild_id == guild_id) & _goes_with_server(kept)
                    await connection.execute(sa.delete(kept).where(mine))
                await forget_server(connection, guild_id)
                await connection.execute(sa.delete(turns).where(turns.c.scope == str(guild_id)))
                await connection.execute(sa.delete(departures).where(departures.c.guild_id == guild_id))

    async def _erase_in_steps(self, key: sa.Column[Any], guild_id: int, few: int) -> None:
        """Delete a server's rows of a table that grows, those of `few` keys at a time."""
        here = key.table.c.guild_id == guild_id
        while True:
            some = await self._scalars(sa.select(key).where(here).limit(few))
            if not some:
                return
            await self._write(sa.delete(key.table).where(key.in_(some)))

    async def erase_acts(self, user_id: int) -> None:
        """Replace a person by a number in the audit log, and as the moderator of blocks, pauses and reviews.

        The number replaces the person in the sums of the devices' time too. The person's refused prompts and
        reports are deleted, and the person's votes and places in group sessions; sessions that the person
        hosted have no host then. A block of the person stays until it ends.
        """
        number, now = erased_number(), self._clock()
        async with self._database.write() as connection:
            await replace_person(connection, user_id, number)
            await erase_from_reviews(connection, user_id, number, now=now)
            await leave_sessions(connection, user_id)
            theirs = sa.update(blocked_pictures).where(blocked_pictures.c.by == user_id)
            await connection.execute(theirs.values(by=number))
            spent = sa.update(device_time).where(device_time.c.user_id == user_id)
            await connection.execute(spent.values(user_id=number))

    async def servers(self) -> set[int]:
        """Return the servers of which anything is stored, except servers that the bot never was in."""
        active = sa.select(jobs.c.guild_id).where(jobs.c.state.in_(ACTIVE), jobs.c.guild_id > 0, _INSIDE)
        async with self._database.read(much=True) as connection:
            return set(await connection.scalars(sa.union(active, *map(_servers_of, OF_SERVERS))))

    async def note_departure(self, guild_ids: Collection[int]) -> None:
        """Record that servers have removed the bot; the first recorded time stays."""
        now = self._clock()
        async with self._database.write() as connection:
            for guild_id in sorted(guild_ids):
                await add_new(connection, departures, {"guild_id": guild_id, "left_at": now})

    async def note_presence(self, guild_ids: Collection[int]) -> None:
        """Record that the bot is in these servers."""
        ordered = sorted(guild_ids)
        async with self._database.write() as connection:
            for start in range(0, len(ordered), SERVERS_AT_ONCE):
                some = ordered[start : start + SERVERS_AT_ONCE]
                await connection.execute(sa.delete(departures).where(departures.c.guild_id.in_(some)))

    async def departed(self, *, before: float) -> list[int]:
        """Return the servers that removed the bot before this time and are not forgotten yet."""
        look = sa.select(departures.c.guild_id).where(departures.c.left_at < before)
        return await self._scalars(look.order_by(departures.c.guild_id))


_INSIDE = ~jobs.c.external
"""The condition for jobs of a server: those of the user-installed app are their persons' alone."""


def _servers_of(kept: sa.Table) -> sa.Select[Any]:
    """Return the statement that reads the servers of a table; where it grows, with one step for each."""
    key, kind = kept.c.guild_id, ENDED if kept is jobs else sa.true()
    if kept not in (jobs, sessions, reviews, reports):
        return sa.select(key).where(key > 0, _goes_with_server(kept))  # 0 stands for all servers
    servers = sa.select(sa.func.min(key).label("id")).where(key > 0, kind).cte(recursive=True)
    following = sa.select(sa.func.min(key)).where(key > servers.c.id, kind)
    servers = servers.union_all(sa.select(following.scalar_subquery()).where(servers.c.id.is_not(None)))
    inside = sa.exists().where(key == servers.c.id, kind, _INSIDE) if kept is jobs else sa.true()
    return sa.select(servers.c.id).where(servers.c.id.is_not(None), inside)


def _jobs_of(*, user_id: int | None, guild_id: int | None) -> list[sa.Select[Any]]:
    """Return the statements that read the ids of these jobs, each in the order of its index."""
    if (user_id is None) is (guild_id is None):
        raise ValueError("a person or a server, and not both")
    look = sa.select(jobs.c.id)
    if user_id is not None:
        return [look.where(jobs.c.user_id == user_id).order_by(jobs.c.interaction_id.desc())]
    here = look.where(_INSIDE, jobs.c.guild_id == guild_id)
    return [here.where(jobs.c.state.in_(ACTIVE)), here.where(ENDED).order_by(jobs.c.finished_at.desc())]


def _goes_with_server(kept: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition for a server's rows that are deleted with it; the operator's block of it stays."""
    if kept is not restrictions:
        return sa.true()
    return OF_ANY_KIND & ~((kept.c.kind == Kind.BLOCK.value) & (kept.c.user_id == 0))


async def leave_sessions(connection: AsyncConnection, user_id: int) -> None:
    """Delete a person's votes and places in group sessions; a session of theirs has no host then."""
    # A vote locks its session before the row of an earlier vote.
    hosted = sa.select(sessions.c.id).where(sessions.c.host_id == user_id).order_by(sessions.c.id)
    theirs = list(await connection.scalars(hosted.with_for_update()))
    await connection.execute(sa.update(sessions).where(sessions.c.id.in_(theirs)).values(host_id=0))
    await connection.execute(sa.delete(session_votes).where(session_votes.c.voter_id == user_id))
    await connection.execute(sa.delete(session_tags).where(session_tags.c.user_id == user_id))
