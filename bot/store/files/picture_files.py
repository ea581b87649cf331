"""The rows of picture files: kept files, files being deleted, and missing files that a result waits for.

    kept ──► going ──► gone ──► wanted ──► kept
               └─ the process that chose the file deletes it; until then no process writes a file of this name

A file's row is written before the file, so every file has a row. A row that no job names belongs to a refused
job, or to a process that died before it stored the job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain import hashes
from bot.domain.file_states import DELETION_SECONDS, FileState, Lost, LostFile, Painter
from bot.domain.jobs import COPIES, State
from bot.store.database.database import Verbs, insert
from bot.store.rows.jobs import among, readable_rows, recipe_from
from bot.store.rows.outbox import UNSETTLED
from bot.store.rows.transitions import ACTIVE, lock_jobs
from bot.store.tables.outbox import outbox
from bot.store.tables.pictures import picture_hashes
from bot.store.tables.queue import LENT, OWN, PAINTED, files, images, jobs, start_pictures
from sdjax_engine.request import Lane

WANTED_SECONDS = 3600.0  # the longest that a result waits for a file


class Files(Verbs):
    """The verbs of files."""

    async def expect(self, name: str, *, size: int) -> float | None:
        """Announce a file of `size` bytes that is about to be written; None while it is being deleted.

        The file counts as kept, and as used at the returned time.
        """
        now = self._clock()
        kept = {"bytes": size, "state": FileState.KEPT, "changed_at": now, "used_at": now}
        kept |= {"leased_until": None, "failure": None}
        async with self._database.write() as connection:
            statement = (
                insert(connection, files)
                .values(name=name, **kept)
                .on_conflict_do_update(
                    index_elements=[files.c.name],
                    set_=kept,
                    where=(files.c.state != FileState.GOING) | (files.c.changed_at <= now - DELETION_SECONDS),
                )
                .returning(files.c.name)
            )
            return None if await connection.scalar(statement) is None else now

    async def drop_unused(self, expected: Mapping[str, float]) -> list[str]:
        """Choose for deletion the files that no job names or has used since `expect`; return their names.

        `expected` are names, each with the time that `expect` returned.
        """
        untouched = sa.or_(
            sa.false(),
            *((files.c.name == name) & (files.c.used_at == used_at) for name, used_at in expected.items()),
        )
        idle = untouched & (files.c.state == FileState.KEPT) & ~named()
        async with self._database.write() as connection:
            look = sa.select(files.c.name).where(idle).order_by(files.c.name).with_for_update()
            chosen = list(await connection.scalars(look))
            await let_go(connection, chosen, now=self._clock())
        return chosen

    async def note_deleted(self, names: Collection[str]) -> None:
        """Record that files which a verb chose for deletion are gone."""
        now = self._clock()
        async with self._database.write() as connection:
            going = files.c.name.in_(names) & (files.c.state == FileState.GOING)
            # Every transaction locks files in the order of their names, which prevents deadlocks.
            await connection.execute(
                sa.select(files.c.name).where(going).order_by(files.c.name).with_for_update()
            )
            await connection.execute(sa.delete(files).where(going, ~named()))
            await connection.execute(
                sa.update(files).where(going).values(state=FileState.GONE, changed_at=now)
            )

    async def painter(self, name: str) -> Painter | None:
        """Return the image that painted this file, or None if no stored job painted it."""
        look = _painters().where(images.c.artifact == name).order_by(images.c.id).limit(1)
        row = await self._row(look)
        return None if row is None else _painter(row)

    async def of_image(self, job_id: str, index: int) -> str | None:
        """Return the name of an image's file; None for an image that is gone or has no file."""
        look = sa.select(images.c.artifact).where(images.c.job_id == job_id, images.c.index == index)
        return await self._scalar(look)

    async def given(self, job_id: str) -> dict[str, str] | None:
        """Return the names of a job's given pictures, as `Recipe.given`; None for a job that is gone."""
        look = sa.select(jobs.c.recipe).where(jobs.c.id == job_id)
        row = await self._row(look)
        return None if row is None else recipe_from(row.recipe).given

    async def replace(self, name: str, other: str) -> None:
        """Make every job that names a lost file name the `other` instead; results that show it become due."""
        now = self._clock()
        async with self._telling(results=True) as connection:
            painted = sa.select(images.c.job_id).where(images.c.artifact == name)
            started = sa.select(start_pictures.c.job_id).where(start_pictures.c.artifact == name)
            job_ids = list(await connection.scalars(sa.union(painted, started)))
            # The lock order of every transaction: jobs, then their deliveries, then files.
            look = sa.select(jobs.c.id, jobs.c.recipe).where(jobs.c.id.in_(job_ids)).order_by(jobs.c.id)
            for row in list(await connection.execute(look.with_for_update())):
                recipe = {key: other if value == name else value for key, value in row.recipe.items()}
                await connection.execute(sa.update(jobs).where(jobs.c.id == row.id).values(recipe=recipe))
            due = sa.update(outbox).where(outbox.c.job_id.in_(job_ids), UNSETTLED)
            await connection.execute(due.values(next_try_at=now))
            for table in (images, start_pictures):
                await connection.execute(
                    sa.update(table).where(table.c.artifact == name).values(artifact=other)
                )
            await connection.execute(sa.delete(files).where(files.c.name == name))

    async def want(self, names: Collection[str]) -> Lost:
        """Ask workers to repaint missing files, and return the state of all of them together."""
        now = self._clock()
        values = {"state": FileState.WANTED, "changed_at": now, "leased_until": None}
        forgotten = (files.c.state == FileState.WANTED) & (files.c.changed_at <= now - WANTED_SECONDS)
        lost = (files.c.state == FileState.GONE) & files.c.failure.is_(None)
        askable = (files.c.state == FileState.KEPT) | lost | forgotten
        async with self._database.write() as connection:
            for name in sorted(names):
                added = insert(connection, files).values(name=name, used_at=now, **values)
                wanted = added.on_conflict_do_update(index_elements=["name"], set_=values, where=askable)
                await connection.execute(wanted)
            of_all = sa.select(
                sa.func.min(files.c.changed_at).label("since"), sa.func.max(files.c.failure).label("failure")
            )
            row = (await connection.execute(of_all.where(files.c.name.in_(names)))).one()
        return Lost(since=row.since, failure=row.failure)

    async def claim_lost(self, lanes: Sequence[Lane], *, limit: int, ttl: float) -> list[LostFile]:
        """Lease wanted files of these lanes for `ttl` seconds, the longest wanted first.

        Two workers may repaint the same file: the first file that is complete is used.
        """
        now = self._clock()
        waiting = sa.select(files.c.name).where(files.c.state == FileState.WANTED)
        free = files.c.leased_until.is_(None) | (files.c.leased_until <= now)
        statement = (
            _painters()
            .add_columns(files.c.name)
            .join(files, files.c.name == images.c.artifact)
            .where(files.c.state == FileState.WANTED, files.c.changed_at > now - WANTED_SECONDS, free)
            .where(images.c.lane.in_([str(lane) for lane in lanes]))
            .order_by(files.c.changed_at, files.c.name, images.c.id)
            .with_for_update(skip_locked=True, of=files)
        )
        # called often, and files are rarely lost
        if await self._scalar(sa.select(sa.literal(1)).where(sa.exists(waiting))) is None:
            return []
        async with self._database.write() as connection:
            found = await readable_rows(connection, statement, limit=limit)
            rows = {row.name: row for row in found}
            if rows:
                mine = sa.update(files).where(files.c.name.in_(rows))
                await connection.execute(mine.values(leased_until=now + ttl))
        return [LostFile(name=name, painter=_painter(row)) for name, row in rows.items()]

    async def end_wait(self, name: str, *, failure: str | None = None) -> None:
        """Record that a file exists again, or why it cannot be repainted; results that show it become due."""
        now = self._clock()
        state = FileState.KEPT if failure is None else FileState.GONE
        values = {"state": state, "changed_at": now, "leased_until": None, "failure": failure}
        async with self._telling(results=True) as connection:
            # The lock order of every transaction: jobs, then their deliveries, then files.
            job_ids = await lock_jobs(connection, images.c.artifact == name)
            due = sa.update(outbox).where(outbox.c.job_id.in_(job_ids), UNSETTLED)
            await connection.execute(due.values(next_try_at=now))
            wanted = (files.c.name == name) & (files.c.state == FileState.WANTED)
            await connection.execute(sa.update(files).where(wanted).values(values))


def named() -> sa.ColumnElement[bool]:
    """Return the condition that a job names the file, as its picture or as its start picture."""
    painted = sa.exists().where(images.c.artifact == files.c.name)
    return painted | sa.exists().where(start_pictures.c.artifact == files.c.name)


async def let_go(connection: AsyncConnection, names: Collection[str], *, now: float) -> None:
    """Mark files as being deleted, so that no process writes them; the caller deletes them."""
    going = {"state": FileState.GOING, "changed_at": now}
    for name in sorted(names):
        added = insert(connection, files).values(name=name, used_at=now, **going)
        await connection.execute(added.on_conflict_do_update(index_elements=["name"], set_=going))


async def use_files(connection: AsyncConnection, names: Collection[str], *, now: float) -> None:
    """Set the last use of these files to now."""
    for name in sorted(names):
        await connection.execute(sa.update(files).where(files.c.name == name).values(used_at=now))


def _painters() -> sa.Select[Any]:
    same = (picture_hashes.c.job_id == images.c.job_id) & (picture_hashes.c.index == images.c.index)
    return (
        sa.select(images.c.job_id, images.c.index.label("number"), jobs.c.recipe, picture_hashes.c.hash)
        .join(jobs, jobs.c.id == images.c.job_id)
        .outerjoin(picture_hashes, same)
        .where(among(images, State.DONE))
    )


def _painter(row: Any) -> Painter:
    known = None if row.hash is None else hashes.read(row.hash)
    return Painter(job_id=row.job_id, index=row.number, recipe=recipe_from(row.recipe), hash=known)


def is_copy(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition for copies of other jobs that are not deleted."""
    return table.c.descent.in_(COPIES) & table.c.deleted_at.is_(None)


async def files_of(connection: AsyncConnection, job_ids: Collection[str]) -> list[str]:
    """Return the files that these jobs show or start from."""
    painted = images.c.job_id.in_(job_ids) & images.c.artifact.is_not(None)
    named = sa.union(
        sa.select(images.c.artifact).where(painted),
        sa.select(start_pictures.c.artifact).where(start_pictures.c.job_id.in_(job_ids)),
    )
    return list(await connection.scalars(named))


async def let_go_unneeded(connection: AsyncConnection, names: Sequence[str], *, now: float) -> list[str]:
    """Mark the files that no job needs for deletion, and return their names.

    A job needs the files that it shows and starts from. But an ended repeat does not need the start picture
    that another job sent.
    """
    active = sa.exists().where(jobs.c.id == start_pictures.c.job_id, jobs.c.state.in_(ACTIVE))
    starts = start_pictures.c.artifact.in_(names) & ((start_pictures.c.source != LENT) | active)
    needed = sa.union(
        sa.select(images.c.artifact).where(images.c.artifact.in_(names)),
        sa.select(start_pictures.c.artifact).where(starts),
    )
    kept = set(await connection.scalars(needed))
    unneeded = [name for name in names if name not in kept]
    await let_go(connection, unneeded, now=now)
    return unneeded


async def source_of(connection: AsyncConnection, name: str, *, repeats: bool) -> str:
    """Return the source of a start picture: painted here, sent with this job, or with the repeated job."""
    painted = sa.select(images.c.id).where(images.c.artifact == name).limit(1)
    if await connection.scalar(painted) is not None:
        return PAINTED
    return LENT if repeats else OWN


async def is_lent(connection: AsyncConnection, name: str, parent_id: str, user_id: int) -> bool:
    """Return whether a job of this person starts from a file of its parent that another person has sent."""
    other = (jobs.c.user_id != user_id) | (start_pictures.c.source == LENT)
    look = sa.select(start_pictures.c.job_id).join(jobs, jobs.c.id == start_pictures.c.job_id)
    theirs = look.where(start_pictures.c.job_id == parent_id, start_pictures.c.artifact == name, other)
    return await connection.scalar(theirs) is not None
