"""The gallery: finished requests with pictures that are shown, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.channels import ChannelKind
from bot.domain.holds import Cause, Outcome
from bot.domain.jobs import Job, State
from bot.store.database.database import Verbs
from bot.store.queue.copies import no_copy
from bot.store.queue.search import CHUNK, SEARCHED, has_words, words_of
from bot.store.rows.jobs import among, load_jobs
from bot.store.tables.queue import jobs


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is looked for: all words in the prompt, one person's, one server's, of one model.

    `public` requests are those whose answer others saw too. With `channels`, only those of these channels
    are found that neither an age restriction nor a rule on words keeps from members.
    """

    words: str = ""
    user_id: int | None = None
    guild_id: int | None = None
    model: str = ""
    public: bool = False
    channels: frozenset[int] | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The words of a finished request; `channel_ids` are its channel and, for a thread, its parent."""

    prompt: str
    negative_prompt: str
    channel_ids: tuple[int, ...]
    private: bool


@dataclass(frozen=True, kw_only=True)
class Found:
    """Jobs that fit, and the job `further` after which the search goes on; empty where nothing is left."""

    jobs: tuple[Job, ...]
    further: str


class Gallery(Verbs):
    """The verbs of the gallery."""

    async def asked(self, guild_id: int, *, since: float, limit: int) -> list[Asked]:
        """Return the words of the last finished requests of a server that were asked for since then.

        Copies are left out; requests that a person deleted have no words any more.
        """
        columns = jobs.c.recipe, jobs.c.channel_id, jobs.c.thread_parent_id, jobs.c.private, jobs.c.created_at
        here = (jobs.c.state == State.DONE) & (jobs.c.guild_id == guild_id) & no_copy()
        last = sa.select(*columns).where(here).order_by(jobs.c.tag.desc(), jobs.c.interaction_id.desc())
        rows = await self._rows(last.limit(limit), much=True)
        return [
            Asked(
                prompt=str(row.recipe.get("prompt", "")),
                negative_prompt=str(row.recipe.get("negative_prompt", "")),
                channel_ids=tuple(filter(None, (row.channel_id, row.thread_parent_id))),
                private=row.private,
            )
            for row in rows
            if row.created_at >= since and isinstance(row.recipe, Mapping)
        ]

    async def find(self, search: Search, *, after: str = "", limit: int) -> Found:
        """Return the first finished jobs that fit, the newest first, or those after the job `after`.

        Copies and deleted results are left out. One search reads at most SEARCHED jobs, and may go on after
        them.
        """
        # One person's jobs have an index in the order of requests, all others in the order of ends.
        key = jobs.c.finished_at if search.user_id is None else jobs.c.interaction_id
        look = sa.select(jobs.c.id, jobs.c.recipe, key.label("key")).where(*_conditions(search))
        async with self._database.read(much=True) as connection:
            first = await _key_of(connection, key, after) if after else None
            found: list[Job] = []
            further = ""
            bound = None if first is None else sa.tuple_(key, jobs.c.id) < first
            for _ in range(SEARCHED // CHUNK):
                part = look if bound is None else look.where(bound)
                rows = list(
                    await connection.execute(part.order_by(key.desc(), jobs.c.id.desc()).limit(CHUNK))
                )
                fitting = [row.id for row in rows if _fits(row.recipe, search)]
                # Part by part: requests that this version cannot read are left out, and hide no other.
                for start in range(0, len(fitting), limit):
                    found += await load_jobs(connection, fitting[start : start + limit])
                    if len(found) > limit:
                        return Found(jobs=tuple(found[:limit]), further=found[limit - 1].id)
                if len(rows) < CHUNK:
                    further = ""
                    break
                further = rows[-1].id
                bound = sa.tuple_(key, jobs.c.id) < sa.tuple_(rows[-1].key, rows[-1].id)
        return Found(jobs=tuple(found), further=further)


def _conditions(search: Search) -> list[sa.ColumnElement[bool]]:
    conditions = [
        among(jobs, State.DONE),
        jobs.c.finished_at.is_not(None),
        jobs.c.deleted_at.is_(None),
        no_copy(),
    ]
    if search.user_id is not None:
        conditions.append(jobs.c.user_id == search.user_id)
    if search.guild_id is not None:
        conditions.append(jobs.c.guild_id == search.guild_id)
    if search.public:
        conditions.append(jobs.c.private.is_(False))
    if search.channels is not None:
        conditions.append(jobs.c.channel_id.in_(search.channels))
        conditions.append(jobs.c.channel_kind != ChannelKind.AGE_RESTRICTED.value)
        shown = jobs.c.ruling.in_([outcome.value for outcome in Outcome if outcome.shows])
        conditions.append(jobs.c.hold.is_(None) | (jobs.c.hold != Cause.RULE.value) | shown)
    return conditions


def _fits(recipe: Any, search: Search) -> bool:
    if not isinstance(recipe, Mapping):
        return False  # of a version that this one cannot read
    fits = not search.model or recipe.get("model") == search.model
    return fits and has_words(str(recipe.get("prompt", "")), words_of(search.words))


async def _key_of(connection: AsyncConnection, key: sa.Column[Any], job_id: str) -> sa.Tuple | None:
    row = (await connection.execute(sa.select(key.label("key")).where(jobs.c.id == job_id))).one_or_none()
    return None if row is None or row.key is None else sa.tuple_(row.key, job_id)
