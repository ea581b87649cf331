"""Known pictures, for an operator: blocks them in every server, and says which the bot painted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bot.app.existing import with_store
from bot.config import Config
from bot.files.artifacts import name_of_png
from bot.provenance.inspection import Kind
from bot.provenance.payload import digits_of
from bot.store import Store
from bot.store.rows.audit import EVERYWHERE, OPERATOR, By
from bot.store.rows.hashes import Blocked


def block_picture_now(config: Config, number: int, *, reason: str) -> bool:
    """Block the picture of this hash; False where it is blocked. Raises like `block_now`."""

    async def block(store: Store) -> bool:
        return await store.known.block(number, _operator(reason))

    return asyncio.run(with_store(config, block))


def unblock_picture_now(config: Config, number: int, *, reason: str) -> bool:
    """Unblock the picture of this hash; False where it is not blocked. Raises like `block_now`."""

    async def unblock(store: Store) -> bool:
        return await store.known.unblock(number, _operator(reason))

    return asyncio.run(with_store(config, unblock))


def blocked_pictures_now(config: Config) -> list[Blocked]:
    """Return the pictures that are blocked in every server; raises like `block_now`."""

    async def look(store: Store) -> list[Blocked]:
        return await store.known.blocked(EVERYWHERE)

    return asyncio.run(with_store(config, look))


@dataclass(frozen=True, kw_only=True)
class Looks:
    """A picture file as the queue may know it.

    By its `digest_of`, by the `number` of its watermark, or by the hashes of it and of its tiles.
    """

    digest: str
    hashes: Sequence[int]
    number: int | None = None


def painted_now(config: Config, pictures: Sequence[Looks]) -> list[Kind | None]:
    """Return how the bot knows each picture that it painted, for anyone; None for any other.

    Raises like `block_now`.
    """

    async def look(store: Store) -> list[Kind | None]:
        return [await _known_by(store, each) for each in pictures]

    return asyncio.run(with_store(config, look))


async def _known_by(store: Store, picture: Looks) -> Kind | None:
    if await store.known.is_result(name_of_png(picture.digest)):
        return Kind.OWN
    if picture.number is not None and await store.known.begins_with(digits_of(picture.number)):
        return Kind.WATERMARK
    return Kind.KNOWN if await store.known.painted_anywhere(picture.hashes) else None


def _operator(reason: str) -> By:
    return By(actor_id=OPERATOR, guild_id=EVERYWHERE, reason=reason)
