"""Searches a channel for a message that an earlier attempt may have posted, before it is posted again.

Discord forgets a nonce after a few minutes. An attempt may have posted its message although its answer was
lost or its process was killed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import discord

from bot.delivery.discord_requests import RateGuard
from bot.delivery.refusals import Refused

log = logging.getLogger(__name__)

LOOKED_AT = 2_000  # messages, a hundred per request: a busy channel's messages in an outage of hours
CLOCKS_APART = 300.0  # the largest difference in seconds between Discord's clock and ours

IsIt = Callable[[set[str]], bool]
"""Whether it is the message, by the custom ids of its components and the names of its files."""


async def posted_earlier(
    client: discord.Client,
    rate_guard: RateGuard,
    channel: discord.abc.Messageable,
    is_it: IsIt,
    *,
    since: float,
    oldest_first: bool = True,
    needed: bool = False,
) -> int | None:
    """Return the id of the client's own message of `channel` since this time that is it; None without one.

    The newest messages are looked at first, or the oldest. None, too, where the channel may not be read: a
    post may still be allowed there. Raises Refused then if the message is `needed`, and DeliveryDelayed.
    """
    if client.user is None:
        return None
    after = datetime.fromtimestamp(since - CLOCKS_APART, UTC)
    try:
        with rate_guard.request(by_token=False):
            async for message in channel.history(limit=LOOKED_AT, after=after, oldest_first=oldest_first):
                if message.author.id == client.user.id and is_it(set(_marks(message))):
                    return message.id
    except Refused as error:
        if needed:
            raise
        log.warning("whether a message was posted before cannot be read: %s", error)
    return None


def _marks(message: discord.Message) -> Iterator[str]:
    yield from (attachment.filename for attachment in message.attachments)
    yield from _custom_ids(message.components)


def _custom_ids(components: Iterable[Any]) -> Iterator[str]:
    for component in components:
        custom_id = getattr(component, "custom_id", None)
        if custom_id:
            yield custom_id
        yield from _custom_ids(getattr(component, "children", ()))
