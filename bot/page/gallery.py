"""The gallery: a wall of finished pictures, found by words, person, server and model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.page.house import House
from bot.page.pictures import pictures_of
from bot.page.queue import number_of
from bot.store.operations.gallery import Search

ON_A_PAGE = 24
MOST_WORDS = 200  # characters


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the first ON_A_PAGE requests that fit, each with its pictures."""
    search = Search(
        words=query.get("words", "")[:MOST_WORDS],
        user_id=number_of(query.get("person", "")),
        guild_id=number_of(query.get("server", "")),
        model=query.get("model", ""),
        public="public" in query,
        channels=frozenset(map(int, channels.split(","))) if (channels := query.get("channels")) else None,
    )
    after = query.get("after", "")
    after = after if after.isascii() and after.isalnum() else ""
    found = await house.store.gallery.find(search, after=after, limit=ON_A_PAGE + 1)
    last = found[ON_A_PAGE - 1].id if len(found) > ON_A_PAGE else None
    return {"jobs": [(job, pictures_of(job)) for job in found[:ON_A_PAGE]], "query": query, "last": last}
