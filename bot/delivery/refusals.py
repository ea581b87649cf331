"""What Discord's refusals of a message mean for its delivery."""

from __future__ import annotations

from enum import StrEnum

import aiohttp
import discord

from bot.errors import BotError

UNKNOWN_CHANNEL = 10003
UNKNOWN_GUILD = 10004
UNKNOWN_MESSAGE = 10008
UNKNOWN_WEBHOOK = 10015
UNKNOWN_INTERACTION = 10062
REQUEST_TOO_LARGE = 40005
INVALID_TOKEN = 50027
DEAD_TOKEN = frozenset({UNKNOWN_WEBHOOK, UNKNOWN_INTERACTION, INVALID_TOKEN})

TRANSIENT = (aiohttp.ClientError, OSError, TimeoutError)


class DeliveryDelayed(BotError):
    """Discord cannot take the message now; it is worth trying again later."""


class Refusal(StrEnum):
    """Why a message cannot be shown; the last one met is stored as the delivery's outcome."""

    LATER = "later"
    TOO_LARGE = "too_large"
    DEAD_TOKEN = "dead_token"  # noqa: S105 - a name, not a secret
    NO_MESSAGE = "no_message"
    PRIVATE_EXPIRED = "private_expired"
    MESSAGE_DELETED = "message_deleted"
    CHANNEL_DELETED = "channel_deleted"
    NO_ACCESS = "no_access"
    REJECTED = "rejected"


def understand(error: discord.HTTPException, *, by_token: bool) -> Refusal:
    """What `error` means; `by_token` when the request was made with an interaction's token."""
    if error.status >= 500 or error.status == 429 or (error.status == 401 and not by_token):
        return Refusal.LATER  # with the bot's own token refused, the client stops; the work waits
    if error.code == REQUEST_TOO_LARGE or error.status == 413:
        return Refusal.TOO_LARGE
    if error.code == UNKNOWN_MESSAGE:
        return Refusal.MESSAGE_DELETED
    if error.code in (UNKNOWN_CHANNEL, UNKNOWN_GUILD):
        return Refusal.CHANNEL_DELETED
    if by_token and (error.code in DEAD_TOKEN or error.status in (401, 403, 404)):
        return Refusal.DEAD_TOKEN
    if error.status == 403:
        return Refusal.NO_ACCESS
    if error.status == 404:
        return Refusal.MESSAGE_DELETED
    return Refusal.REJECTED
