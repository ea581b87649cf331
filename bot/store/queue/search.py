"""Search for words in the prompts of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.tables.queue import jobs

SEARCHED = 2_000  # the most jobs that one search reads
CHUNK = 200


def words_of(text: str) -> tuple[str, ...]:
    """Return the words to search for; empty for a blank text."""
    return tuple(text.casefold().split())


def has_words(prompt: str, words: tuple[str, ...]) -> bool:
    """Return whether each word is somewhere in `prompt`, without regard to case."""
    folded = prompt.casefold()
    return all(word in folded for word in words)


async def find_words(
    connection: AsyncConnection, which: sa.Select[Any], words: tuple[str, ...], *, up: bool, limit: int
) -> list[str]:
    """Return the ids of the first `limit` jobs of `which` whose prompts have all words.

    Reads at most `SEARCHED` jobs in the order of their interactions: the oldest first with `up`, else the
    newest. `which` selects from the table of jobs.
    """
    # Matched here: SQLite compares without case in ASCII only, and the two databases escape differently.
    key = jobs.c.interaction_id
    look = which.with_only_columns(jobs.c.id, jobs.c.recipe, key).order_by(key if up else key.desc())
    found: list[str] = []
    part = look
    for _ in range(SEARCHED // CHUNK):
        rows = list(await connection.execute(part.limit(CHUNK)))
        found += [row.id for row in rows if has_words(_prompt(row.recipe), words)]
        if len(found) >= limit or len(rows) < CHUNK:
            break
        last = rows[-1].interaction_id
        part = look.where(key > last if up else key < last)
    return found[:limit]


def _prompt(recipe: Any) -> str:
    """Return the prompt of a recipe as its row has it; empty for a row that this version cannot read."""
    return str(recipe.get("prompt", "")) if isinstance(recipe, Mapping) else ""
