"""What an operator's commands do with the queue of a bot that has run, beside a running bot.

Each function that ends in `_now` raises ConfigurationError or StoreUnavailable, as `in_store` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeVar

from bot.backup import Made, Restored, make_backup, restore_backup
from bot.config import Config
from bot.domain.errors import ConfigurationError, StoreUnavailable
from bot.domain.time_units import HOUR_SECONDS
from bot.files import Artifacts, Files
from bot.files.artifacts import name_of_png
from bot.files.erasure import forget
from bot.provenance.inspection import Kind
from bot.provenance.payload import digits_of
from bot.store import Store
from bot.store.database.opening import connect_database, has_tables, make_database
from bot.store.database.upgrade import level
from bot.store.rows.audit import EVERYWHERE, OPERATOR, By
from bot.store.rows.device_time import Grouping, Usage, priced
from bot.store.rows.hashes import Blocked
from bot.store.rows.restrictions import Restriction, Scope

T = TypeVar("T")


def in_store(config: Config, act: Callable[[Store], Awaitable[T]]) -> T:
    """Return what `act` returns with the configured store open.

    Raises ConfigurationError where no bot has run on it: its path may be relative to another folder.
    Raises StoreUnavailable where its tables are of an older version, which may run on it and be needed again.
    """
    return asyncio.run(_in_store(config, act))


async def _in_store(config: Config, act: Callable[[Store], Awaitable[T]]) -> T:
    database = connect_database(config.queue.database)
    try:
        if not await has_tables(database):
            raise ConfigurationError(
                f"There is no queue in {database.place}: run this in the folder where the bot runs, with the "
                "bot's configuration, after its first start."
            )
        async with database.read() as connection:
            tables = await connection.run_sync(level)
    finally:
        await database.close()
    if tables.is_known and tables.current != tables.head:
        raise StoreUnavailable(
            f"The tables in {database.place} are of an older version of the bot ({tables.current}): run this "
            f"with that version, or start this version, which brings them to {tables.head}."
        )
    store = await Store.open(config.queue.database)
    try:
        return await act(store)
    finally:
        await store.close()


def block_now(
    config: Config, *, user_id: int | None, guild_id: int | None, hours: int | None, reason: str
) -> Restriction | None:
    """Block a person everywhere, or a server; return the block that this replaces."""
    scope, by = _scope(user_id, guild_id), _by(reason, guild_id)

    async def block(store: Store) -> Restriction | None:
        until = None if hours is None else store.clock() + hours * HOUR_SECONDS
        there = await store.moderation.by_operator()
        await store.moderation.block(scope, by, until=until)
        return next((each for each in there if each.scope == scope), None)

    return in_store(config, block)


def unblock_now(config: Config, *, user_id: int | None, guild_id: int | None, reason: str) -> bool:
    """End the block of a person or a server; return whether there was one."""
    scope, by = _scope(user_id, guild_id), _by(reason, guild_id)
    return in_store(config, lambda store: store.moderation.unblock(scope, by)) is not None


def blocks_now(config: Config) -> list[Restriction]:
    """Return the operator's blocks that hold, in the order of their time."""
    return in_store(config, lambda store: store.moderation.by_operator())


def _scope(user_id: int | None, guild_id: int | None) -> Scope:
    return Scope(guild_id=guild_id or 0, user_id=user_id or 0)


def _by(reason: str, guild_id: int | None = EVERYWHERE) -> By:
    return By(actor_id=OPERATOR, guild_id=guild_id or 0, reason=reason)


def forget_now(
    config: Config, *, user_id: int | None, guild_id: int | None, job_id: str | None = None
) -> int:
    """Delete the data and the files of a person, of a job's person or of a server; return how many jobs.

    The person of a job that is not stored is unknown.
    """

    async def act(store: Store) -> int:
        person = user_id if job_id is None else await store.erasure.person_of(job_id)
        if person is None and guild_id is None:
            return 0
        files = Files(store.files, Artifacts(config.queue.artifacts))
        return await forget(store.erasure, files, user_id=person, guild_id=guild_id)

    return in_store(config, act)


def block_picture_now(config: Config, number: int, *, reason: str) -> bool:
    """Block the picture of this hash in every server; False where it is blocked."""
    return in_store(config, lambda store: store.known.block(number, _by(reason)))


def unblock_picture_now(config: Config, number: int, *, reason: str) -> bool:
    """Unblock the picture of this hash; False where it is not blocked."""
    return in_store(config, lambda store: store.known.unblock(number, _by(reason)))


def blocked_pictures_now(config: Config) -> list[Blocked]:
    """Return the pictures that are blocked in every server."""
    return in_store(config, lambda store: store.known.blocked(EVERYWHERE))


@dataclass(frozen=True, kw_only=True)
class Looks:
    """A picture file as the queue may know it.

    By its `digest_of`, by the `number` of its watermark, or by the hashes of it and of its tiles.
    """

    digest: str
    hashes: Sequence[int]
    number: int | None = None


def painted_now(config: Config, pictures: Sequence[Looks]) -> list[Kind | None]:
    """Return how the bot knows each picture that it painted, for anyone; None for any other."""

    async def look(store: Store) -> list[Kind | None]:
        return [await _known_by(store, each) for each in pictures]

    return in_store(config, look)


async def _known_by(store: Store, picture: Looks) -> Kind | None:
    if await store.known.is_result(name_of_png(picture.digest)):
        return Kind.OWN
    if picture.number is not None and await store.known.begins_with(digits_of(picture.number)):
        return Kind.WATERMARK
    return Kind.KNOWN if await store.known.painted_anywhere(picture.hashes) else None


def usage_now(
    config: Config, by: Sequence[Grouping], *, since: date | None, until: date | None
) -> list[Usage]:
    """Return the usage by these groupings."""
    sums = in_store(config, lambda store: store.device_time.sums(by, since=since, until=until))
    found = priced(sums, config.usage.price)
    # By day: in the order of days. Otherwise the largest use comes first.
    return found if Grouping.DAY in by else sorted(found, key=lambda each: -each.device_seconds)


def back_up_now(config: Config, place: Path, *, keep: int | None) -> Made:
    """Write a backup; raises like `make_backup`, or ConfigurationError."""

    async def work() -> Made:
        database = connect_database(config.queue.database)
        try:
            return await make_backup(place, database, Artifacts(config.queue.artifacts), keep=keep)
        finally:
            await database.close()

    return asyncio.run(work())


def restore_now(config: Config, place: Path) -> Restored:
    """Restore a backup into empty places; raises like `restore_backup`, or ConfigurationError."""

    async def work() -> Restored:
        database = await make_database(config.queue.database)
        try:
            return await restore_backup(place, database, Artifacts(config.queue.artifacts))
        finally:
            await database.close()

    return asyncio.run(work())
