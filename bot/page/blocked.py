"""The pictures that a server blocks, as far as their files are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.domain.hashes import name_of, named
from bot.page.house import House
from bot.page.wall import server_of
from bot.store.rows.audit import By

SHOWN = 60


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the newest blocked pictures of a server, each with its name and whether a file is kept."""
    guild_id = await server_of(house, query)
    found = await house.store.known.blocked(guild_id) if guild_id else []
    kept = await house.store.known.kept(guild_id or 0, [each.hash for each in found[:SHOWN]])
    return {
        "blocked": [(each, name_of(each.hash), each.hash in kept) for each in found[:SHOWN]],
        "more": len(found) > SHOWN,
        "most": SHOWN,
        "guild_id": guild_id,
    }


async def file_of(house: House, guild_id: int, name: str) -> str | None:
    """Return the file of a blocked picture of a server; None where it is not blocked or no file is kept."""
    number = named(name)
    if number is None or all(each.hash != number for each in await house.store.known.blocked(guild_id)):
        return None
    return (await house.store.known.kept(guild_id, [number])).get(number)


async def unblock(house: House, name: str, by: By) -> bool:
    """Unblock the picture of this name; False where the server has not blocked it."""
    number = named(name)
    return number is not None and await house.store.known.unblock(number, by)
