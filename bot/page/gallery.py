"""The gallery: a wall of finished pictures, found by words, person, server and model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.page.guard import number_of
from bot.page.house import House
from bot.page.pictures import pictures_of
from bot.store.operations.gallery import Search
from bot.store.queue.search import SEARCHED

ON_A_PAGE = 24
MOST_WORDS = 200  # characters


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the first ON_A_PAGE requests that fit, each with its pictures, and where the search goes on."""
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
    found = await house.store.gallery.find(search, after=after, limit=ON_A_PAGE)
    shown = [(job, pictures_of(job)) for job in found.jobs]
    return {"jobs": shown, "query": query, "further": found.further, "searched": SEARCHED}
