"""Results that an earlier attempt may have posted: looked for in the channel before anything is posted again.

Discord forgets a nonce after a few minutes. An attempt whose answer was lost, or whose process was killed,
may have posted its message all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import discord

from bot.delivery.render import MessageContent
from bot.jobs import Delivery

LOOKED_AT = 2_000  # messages, in requests of a hundred: what a busy channel has in the hours of an outage
CLOCKS_APART = 300.0  # seconds between Discord's clock and ours, at most


async def posted_earlier(
    channel: discord.abc.Messageable, delivery: Delivery, content: MessageContent, *, author_id: int
) -> int | None:
    """The id of the message by `author_id` that shows `content` in `channel` already; None without one.

    Looks at messages since the job ended. A message is known by its buttons, which name the job. Raises what
    discord.py raises.
    """
    buttons = {button.custom_id for row in content.rows for button in row}
    ended = delivery.job.finished_at or delivery.job.created_at
    after = datetime.fromtimestamp(ended - CLOCKS_APART, UTC)
    async for message in channel.history(limit=LOOKED_AT, after=after, oldest_first=True):
        if message.author.id == author_id and buttons and buttons <= set(_custom_ids(message.components)):
            return message.id
    return None


def _custom_ids(components: Iterable[Any]) -> Iterator[str]:
    """The custom ids of these components and of all that they hold."""
    for component in components:
        custom_id = getattr(component, "custom_id", None)
        if custom_id:
            yield custom_id
        yield from _custom_ids(getattr(component, "children", ()))
