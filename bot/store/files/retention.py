"""Bounds on stored data: files by age and by size, jobs by age, files that no job names.

Each verb chooses a few files at a time: it searches in a read-only transaction, checks again in a short write
transaction, and marks the files as being deleted. The caller deletes the files, then calls
`files.note_deleted`. If a process dies in between, another process finds the files by `unfinished_deletions`.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from bot.domain.file_states import DELETION_SECONDS, FileState
from bot.domain.jobs import Showing
from bot.store.database.database import Verbs, insert
from bot.store.files.picture_files import files_of, is_copy, let_go, named
from bot.store.rows.outbox import UNSETTLED
from bot.store.rows.reviews import waits
from bot.store.rows.transitions import ACTIVE
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import (
    HOLDS_TOKEN,
    duties,
    favourites,
    files,
    images,
    jobs,
    last_tags,
    start_pictures,
)
from bot.store.tables.reviews import reviews

_KEPT = files.c.state == FileState.KEPT
# The condition `state == KEPT` in a form for which no database scans all kept files.
_STILL_KEPT = files.c.state.not_in([state for state in FileState if state is not FileState.KEPT])


class Retention(Verbs):
    """The verbs of the sweeper."""

    async def take_duty(self, name: str, *, holder: str, ttl: float) -> bool:
        """Return whether `holder` has this duty for `ttl` seconds; another holder's must expire first.

        An end beyond twice `ttl` from now means that the clock was set back: it counts as expired.
        """
        now, ends = self._clock(), duties.c.expires_at
        mine = {"holder": holder, "expires_at": now + ttl}
        async with self._database.write() as connection:
            statement = (
                insert(connection, duties)
                .values(name=name, **mine)
                .on_conflict_do_update(
                    index_elements=[duties.c.name],
                    set_=mine,
                    where=(duties.c.holder == holder) | (ends <= now) | (ends > now + 2 * ttl),
                )
                .returning(duties.c.name)
            )
            return await connection.scalar(statement) is not None

    async def kept_bytes(self) -> int:
        """Return the bytes of all kept files, as far as they are known."""
        statement = sa.select(sa.func.coalesce(sa.func.sum(files.c.bytes), 0)).where(_KEPT)
        async with self._database.read(much=True) as connection:
            return int(await connection.scalar(statement) or 0)

    async def drop_files(self, *, before: float, limit: int, most_bytes: int | None = None) -> dict[str, int]:
        """Choose files last used before this time that no job needs, the oldest first.

        Returns their bytes, as far as they are known, by their names: at most `limit` files, and with
        `most_bytes` none beyond the file that reaches so many bytes.
        """
        droppable = (files.c.used_at < before) & _unneeded()
        oldest = sa.select(files.c.name, files.c.bytes).where(_KEPT, droppable)
        rows = await self._rows(oldest.order_by(files.c.used_at, files.c.name).limit(limit), much=True)
        few: dict[str, int] = {}
        for row in rows:
            if most_bytes is not None and sum(few.values()) >= most_bytes:
                break
            few[row.name] = row.bytes or 0
        return {name: few[name] for name in await self._drop(list(few), droppable)}

    async def drop_orphans(self, *, after: float, before: float, limit: int) -> list[str]:
        """Choose files announced in [`after`, `before`) that no job names; return their names."""
        orphaned = (files.c.used_at >= after) & (files.c.used_at < before) & ~named()
        look = sa.select(files.c.name).where(_KEPT, orphaned).order_by(files.c.used_at).limit(limit)
        few = [row.name for row in await self._rows(look, much=True)]
        return await self._drop(few, orphaned)

    async def _drop(self, few: list[str], condition: sa.ColumnElement[bool]) -> list[str]:
        """Mark files for deletion for which the condition of the search still holds.

        The search may take long; it only reads, so it blocks no writer.
        """
        if not few:
            return []
        still = sa.select(files.c.name).where(files.c.name.in_(few), _STILL_KEPT, condition)
        async with self._database.write() as connection:
            locked = still.order_by(files.c.used_at, files.c.name).with_for_update(skip_locked=True)
            chosen = list(await connection.scalars(locked))
            await let_go(connection, chosen, now=self._clock())
        return chosen

    async def unfinished_deletions(self, *, limit: int) -> list[str]:
        """Take over the deletion of files from processes that have probably died; return the files."""
        now = self._clock()
        left = (
            sa.select(files.c.name)
            .where(files.c.state == FileState.GOING, files.c.changed_at <= now - DELETION_SECONDS)
            .order_by(files.c.changed_at)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        async with self._database.write() as connection:
            chosen = list(await connection.scalars(left))
            await let_go(connection, chosen, now=now)
        return chosen

    async def forget_jobs(self, *, before: float, limit: int) -> tuple[int, list[str]]:
        """Delete jobs that ended before this time; return how many, and the files that no job names any more.

        A job stays while its result is not delivered or is held for review, while it is a person's favourite,
        while another job starts from its picture, which its recipe can repaint, and while there is a copy of
        it, which must go too when its person has everything deleted.
        """
        others, copies = start_pictures.alias(), jobs.alias()
        started_from = (
            sa.exists()
            .where(images.c.job_id == jobs.c.id, others.c.artifact == images.c.artifact)
            .where(others.c.job_id != jobs.c.id)
        )
        undelivered = sa.exists().where(outbox.c.job_id == jobs.c.id, UNSETTLED)
        favourite = (favourites.c.job_id == jobs.c.id) & jobs.c.deleted_at.is_(None)
        held = sa.exists().where(
            images.c.job_id == jobs.c.id, images.c.artifact.is_not(None), images.c.showing == Showing.HOLD
        )
        copied = sa.exists().where(copies.c.parent_id == jobs.c.id, is_copy(copies))
        wanted = undelivered | started_from | held | copied | sa.exists().where(favourite)
        forgettable = (jobs.c.finished_at < before) & ~wanted
        old = sa.select(jobs.c.id).where(forgettable).order_by(jobs.c.finished_at, jobs.c.id).limit(limit)
        async with self._database.read(much=True) as connection:
            few = list(await connection.scalars(old))
        if not few:
            return 0, []
        still = sa.select(jobs.c.id).where(jobs.c.id.in_(few), forgettable).order_by(jobs.c.id)
        async with self._database.write() as connection:
            job_ids = list(await connection.scalars(still.with_for_update(skip_locked=True)))
            names = await files_of(connection, job_ids)
            await connection.execute(sa.delete(jobs).where(jobs.c.id.in_(job_ids)))
            nameless = sa.select(files.c.name).where(files.c.name.in_(names), _STILL_KEPT, ~named())
            chosen = list(await connection.scalars(nameless.order_by(files.c.name)))
            await connection.execute(
                sa.delete(files).where(files.c.name.in_(names), files.c.state == FileState.GONE, ~named())
            )
            await let_go(connection, chosen, now=self._clock())
        return len(job_ids), chosen

    async def forget_idle(self, *, after: int, limit: int) -> int | None:
        """Delete the places in the fair order of persons without jobs, of the next persons after this id.

        Returns the id of the last of these at most `limit` persons, None where no further ones follow.
        """
        # Not EXISTS: PostgreSQL may answer it for all persons at once, by reading all jobs.
        theirs = sa.select(jobs.c.id).where(jobs.c.user_id == last_tags.c.user_id).limit(1)
        idle = theirs.scalar_subquery().is_(None)
        look = sa.select(last_tags.c.user_id, idle.label("idle")).where(last_tags.c.user_id > after)
        rows = await self._rows(look.order_by(last_tags.c.user_id).limit(limit))
        if few := [row.user_id for row in rows if row.idle]:
            persons = sa.select(last_tags.c.user_id).where(last_tags.c.user_id.in_(few))
            async with self._database.write() as connection:
                ordered = persons.order_by(last_tags.c.user_id).with_for_update(skip_locked=True)
                locked = list(await connection.scalars(ordered))  # a request under way has its person locked
                await connection.execute(sa.delete(last_tags).where(last_tags.c.user_id.in_(locked), idle))
        return rows[-1].user_id if len(rows) == limit else None

    async def forget_tokens(self, *, before: float, limit: int) -> int:
        """Delete at most `limit` interaction tokens that expired before this time; return how many."""
        ended = HOLDS_TOKEN & (jobs.c.token_expires_at < before)
        old = sa.select(jobs.c.id).where(ended).order_by(jobs.c.token_expires_at).limit(limit)
        few = await self._scalars(old)
        if not few:
            return 0
        still = sa.select(jobs.c.id).where(jobs.c.id.in_(few), ended).order_by(jobs.c.id)
        async with self._database.write() as connection:
            job_ids = list(await connection.scalars(still.with_for_update(skip_locked=True)))
            forgotten = sa.update(jobs).where(jobs.c.id.in_(job_ids)).values(interaction_token="")
            return (await connection.execute(forgotten)).rowcount

    async def note_files(self, found: Mapping[str, int]) -> None:
        """Record files that exist, with their bytes; a file without a row counts as used now."""
        async with self._database.read() as connection:
            look = sa.select(files.c.name).where(files.c.name.in_(found), files.c.bytes.is_not(None))
            known = set(await connection.scalars(look))
        if known == found.keys():
            return
        now = self._clock()
        kept = {"state": FileState.KEPT, "changed_at": now, "used_at": now}
        async with self._database.write() as connection:
            for name, size in sorted(found.items() - {(name, found[name]) for name in known}):
                there = insert(connection, files).values(name=name, bytes=size, **kept)
                await connection.execute(
                    there.on_conflict_do_update(
                        index_elements=[files.c.name], set_={"bytes": size}, where=files.c.bytes.is_(None)
                    )
                )


def _unneeded() -> sa.ColumnElement[bool]:
    """Return the condition that no active job, undelivered result or review needs the file."""
    started = sa.exists().where(
        start_pictures.c.artifact == files.c.name,
        start_pictures.c.job_id == jobs.c.id,
        jobs.c.state.in_(ACTIVE),
    )
    painted = sa.exists().where(
        images.c.artifact == files.c.name, images.c.job_id == jobs.c.id, jobs.c.state.in_(ACTIVE)
    )
    undelivered = sa.exists().where(
        images.c.artifact == files.c.name,
        outbox.c.job_id == images.c.job_id,
        UNSETTLED,
    )
    held = sa.exists().where(images.c.artifact == files.c.name, images.c.showing == Showing.HOLD)
    # Nested, as a join SQLite would read all waiting reviews for each file.
    review = sa.exists().where(reviews.c.job_id == start_pictures.c.job_id, waits())
    reviewed = sa.exists().where(start_pictures.c.artifact == files.c.name, review)
    return ~started & ~painted & ~undelivered & ~held & ~reviewed
