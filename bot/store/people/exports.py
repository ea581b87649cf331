"""What is stored of one person beside jobs, for that person's export."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from bot.domain.file_states import FileState
from bot.store.database.database import Verbs, count_of
from bot.store.tables.fleet import device_time
from bot.store.tables.policies import charges
from bot.store.tables.queue import files, jobs
from bot.store.tables.reviews import reports, reviews
from bot.store.tables.sessions import sessions

MOST_ROWS = 20_000  # of each kind, the newest: years of use

Rows = list[dict[str, Any]]
"""Rows as values by name; times are in seconds since the epoch."""


class Exports(Verbs):
    """The verbs of exports; each returns rows of one person, the newest first."""

    async def count(self, user_id: int, *, up_to: int | None = None) -> int:
        """Count a person's jobs in any state; with `up_to` those of this interaction and older ones."""
        older = sa.true() if up_to is None else jobs.c.interaction_id <= up_to
        async with self._database.read() as connection:
            return await count_of(connection, jobs, jobs.c.user_id == user_id, older)

    async def page(self, user_id: int, *, older_than: int | None, limit: int) -> Mapping[str, int]:
        """Return the newest jobs of a person with their interactions, of those older than an interaction."""
        look = sa.select(jobs.c.id, jobs.c.interaction_id).where(jobs.c.user_id == user_id)
        if older_than is not None:
            look = look.where(jobs.c.interaction_id < older_than)
        rows = await self._rows(look.order_by(jobs.c.interaction_id.desc()).limit(limit))
        return {row.id: row.interaction_id for row in rows}

    async def as_stored(self, job_ids: Collection[str]) -> Rows:
        """Return jobs that this version cannot read, with the text that is stored of their recipes."""
        row = jobs.c
        place = row.guild_id.label("server"), row.channel_id.label("channel")
        look = sa.select(row.id, row.created_at, *place, sa.cast(row.recipe, sa.Text).label("recipe"))
        return [dict(found._mapping) for found in await self._rows(look.where(row.id.in_(job_ids)))]

    async def lost(self, names: Collection[str]) -> set[str]:
        """Return which of these files are known to be gone, as most pictures of old jobs are."""
        look = sa.select(files.c.name).where(files.c.name.in_(names), files.c.state != FileState.KEPT)
        return set(await self._scalars(look))

    async def reports(self, user_id: int) -> Rows:
        """Return the reports of pictures, with their reasons."""
        row = reports.c
        columns = row.job_id.label("request"), row.guild_id.label("server"), row.at, row.reason
        return await self._newest(sa.select(*columns).where(row.user_id == user_id), row.at)

    async def reviews(self, user_id: int) -> Rows:
        """Return the reviews of a person's pictures, and refused prompts with their recipes and appeals."""
        row = reviews.c
        columns = (
            *(row.kind, row.guild_id.label("server"), row.job_id.label("request"), row.rule),
            *(row.request.label("asked"), row.opened_at, row.due_at, row.outcome, row.decided_at, row.reason),
            row.words,
        )
        found = await self._newest(sa.select(*columns).where(row.user_id == user_id), row.opened_at)
        return [each | {"asked": (each["asked"] or {}).get("recipe")} for each in found]

    async def days(self, user_id: int) -> Rows:
        """Return the pictures and the devices' seconds of each day, server, model and class."""
        row = device_time.c
        columns = row.day, row.guild_id.label("server"), row.model, row.accelerator, row.seconds, row.pictures
        return await self._newest(sa.select(*columns).where(row.user_id == user_id), row.day)

    async def counted(self, user_id: int) -> Rows:
        """Return what counts against quotas."""
        row = charges.c
        columns = (
            *(row.job_id.label("request"), row.guild_id.label("server"), row.channel_id.label("channel")),
            *(row.at, row.pictures, row.cost),
        )
        return await self._newest(sa.select(*columns).where(row.user_id == user_id), row.at)

    async def hosted(self, user_id: int) -> Rows:
        """Return the group sessions that a person hosts, with their plans."""
        row = sessions.c
        columns = (
            *(row.id.label("session"), row.guild_id.label("server"), row.channel_id.label("channel")),
            *(row.plan, row.phase, row.round, row.opened_at, row.closed_at),
        )
        return await self._newest(sa.select(*columns).where(row.host_id == user_id), row.opened_at)

    async def _newest(self, look: sa.Select[Any], at: sa.ColumnElement[Any]) -> Rows:
        rows = await self._rows(look.order_by(at.desc()).limit(MOST_ROWS))
        return [dict(row._mapping) for row in rows]
