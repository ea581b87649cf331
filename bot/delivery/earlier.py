"""Searches a channel for a result that an earlier attempt may have posted, before it is posted again.

Discord forgets a nonce after a few minutes. An attempt may have posted its message although its answer was
lost or its process was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import discord

from bot.delivery.content import MessageContent
from bot.domain.jobs import Delivery

LOOKED_AT = 2_000  # messages, a hundred per request: a busy channel's messages in an outage of hours
CLOCKS_APART = 300.0  # the largest difference in seconds between Discord's clock and ours


async def posted_earlier(
    channel: discord.abc.Messageable, delivery: Delivery, content: MessageContent, *, author_id: int
) -> int | None:
    """Return the id of the message by `author_id` that shows `content` in `channel`; None without one.

    Searches the messages since the job ended for the job's Delete button. The other buttons may differ: a
    decision of moderators may have changed the content since. Raises the errors of discord.py.
    """
    buttons = {button.custom_id for row in content.rows for button in row} & {f"delete:{delivery.job.id}"}
    ended = delivery.job.finished_at or delivery.job.created_at
    after = datetime.fromtimestamp(ended - CLOCKS_APART, UTC)
    async for message in channel.history(limit=LOOKED_AT, after=after, oldest_first=True):
        if message.author.id == author_id and buttons and buttons <= set(custom_ids(message.components)):
            return message.id
    return None


def custom_ids(components: Iterable[Any]) -> Iterator[str]:
    """Return the custom ids of these components and of the components within them."""
    for component in components:
        custom_id = getattr(component, "custom_id", None)
        if custom_id:
            yield custom_id
        yield from custom_ids(getattr(component, "children", ()))
