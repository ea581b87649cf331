"""The gallery: finished requests with pictures that are shown, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.channels import ChannelKind
from bot.domain.holds import Cause, Outcome
from bot.domain.jobs import ImageRecord, Job, Showing, State
from bot.domain.levels import Level
from bot.store.database.database import Verbs
from bot.store.queue.copies import no_copy
from bot.store.queue.search import CHUNK, SEARCHED, has_words, words_of
from bot.store.rows.jobs import is_public, load_jobs
from bot.store.tables.queue import favourites, images, jobs


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is looked for: all words in the prompt, one person's, one server's, one channel's, of one model.

    `public` requests are those whose answer members of a server saw too. With `channels`, only those of these
    channels are found that neither an age restriction nor a rule on words keeps from members. `seed` and
    `level` are those of one picture of the request, which ended from `since` on and before `until`.
    `starred_by` is a person who marked the request, or a copy of it, with a star.
    """

    words: str = ""
    user_id: int | None = None
    guild_id: int | None = None
    model: str = ""
    public: bool = False
    channels: frozenset[int] | None = None
    channel_id: int | None = None
    seed: int | None = None
    level: Level | None = None
    since: float | None = None
    until: float | None = None
    starred_by: int | None = None

    def has(self, image: ImageRecord) -> bool:
        """Return whether a picture has the seed and the level that are looked for."""
        return self.seed in (None, image.seed) and self.level in (None, image.notes.level)


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

        Copies are left out where no star is looked for, deleted results always. One search reads at most
        SEARCHED jobs, and may go on after them.
        """
        key: sa.ColumnElement[Any] = jobs.c.finished_at
        if search.starred_by is not None:
            key = key + 0  # no index on it: a person's stars are few, and are all read
        recipe = sa.case((sa.and_(*_conditions(search)), jobs.c.recipe))
        look = sa.select(jobs.c.id, recipe.label("recipe"), key.label("key")).where(*_bounds(search, key))
        async with self._database.read(much=True) as connection:
            bound = await _start(connection, key, after, search.until)
            found: list[Job] = []
            further = ""
            for _ in range(SEARCHED // CHUNK):
                part = look.where(bound)
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


def _bounds(search: Search, key: sa.ColumnElement[Any]) -> list[sa.ColumnElement[bool]]:
    """Return what an index serves. All else is asked of the rows that one search reads, so that it ends."""
    bounds: list[sa.ColumnElement[bool]] = [jobs.c.finished_at.is_not(None)]
    if search.starred_by is not None:
        starred = sa.select(favourites.c.job_id).where(favourites.c.user_id == search.starred_by)
        bounds.append(jobs.c.id.in_(starred))
    elif search.user_id is not None:
        bounds.append(jobs.c.user_id == search.user_id)
    elif search.guild_id is not None:
        bounds.append(jobs.c.guild_id == search.guild_id)
    if search.since is not None:
        bounds.append(key >= search.since)
    return bounds


def _conditions(search: Search) -> list[sa.ColumnElement[bool]]:
    conditions = [jobs.c.state == State.DONE, jobs.c.deleted_at.is_(None)]
    if search.starred_by is None:
        conditions.append(no_copy())
    if search.user_id is not None:
        conditions.append(jobs.c.user_id == search.user_id)
    if search.guild_id is not None:
        conditions.append(jobs.c.guild_id == search.guild_id)
    if search.channel_id is not None:
        of_threads = jobs.c.thread_parent_id == search.channel_id
        conditions.append(of_threads | (jobs.c.channel_id == search.channel_id))
    if search.public:
        conditions.append(is_public())
    if search.channels is not None:
        conditions.append(jobs.c.channel_id.in_(search.channels))
        conditions.append(jobs.c.channel_kind != ChannelKind.AGE_RESTRICTED.value)
        shown = jobs.c.ruling.in_([outcome.value for outcome in Outcome if outcome.shows])
        conditions.append(jobs.c.hold.is_(None) | (jobs.c.hold != Cause.RULE.value) | shown)
    pictures = [images.c.job_id == jobs.c.id, images.c.showing.in_([Showing.SHOW, Showing.SPOILER])]
    if search.seed is not None:
        pictures.append(images.c.seed == search.seed)
    if search.level is not None:
        level = sa.func.coalesce(images.c.notes["level"].as_string(), Level.NONE.value)
        pictures.append(level == search.level.value)
    if search.seed is not None or search.level is not None:
        # A count, because PostgreSQL would make `exists` a hash table of all images.
        conditions.append(sa.select(sa.func.count()).where(*pictures).scalar_subquery() > 0)
    return conditions


def _fits(recipe: Any, search: Search) -> bool:
    if not isinstance(recipe, Mapping):
        return False  # one that fits not, or of a version that this one cannot read
    fits = not search.model or recipe.get("model") == search.model
    return fits and has_words(str(recipe.get("prompt", "")), words_of(search.words))


async def _start(
    connection: AsyncConnection, key: sa.ColumnElement[Any], after: str, until: float | None
) -> sa.ColumnElement[bool]:
    """Return the bound where the search begins: one, because SQLite searches its index by one of two."""
    look = sa.select(key.label("key")).where(jobs.c.id == after)
    at = (await connection.execute(look)).scalar_one_or_none() if after else None
    if at is not None and (until is None or at < until):
        return sa.tuple_(key, jobs.c.id) < sa.tuple_(at, after)
    return sa.true() if until is None else key < until
