"""The meaning of Discord's refusals for a delivery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import aiohttp
import discord

from bot.domain.errors import BotError

UNKNOWN_CHANNEL = 10003
UNKNOWN_GUILD = 10004
UNKNOWN_MESSAGE = 10008
UNKNOWN_WEBHOOK = 10015
UNKNOWN_INTERACTION = 10062
SLOWMODE = 20016
TOO_MANY_EDITS = 30046  # of messages older than an hour
REQUEST_TOO_LARGE = 40005
MISSING_PERMISSIONS = 50013
CANNOT_MESSAGE_USER = 50007
EXPLICIT_CONTENT = 20009  # which the person does not take
INVALID_TOKEN = 50027
ARCHIVED = 50083
NO_MUTUAL_SERVER = 50278
LOCKED = 160005
NO_ACCESS = frozenset(
    {
        50001,  # no access
        20012,  # not authorised for this application
        40007,  # banned from the server
        50003,  # not in a direct message
        50005,  # the message is another application's
        50009,  # the channel wants more verification
    }
)
DEAD_TOKEN = frozenset({UNKNOWN_WEBHOOK, UNKNOWN_INTERACTION, INVALID_TOKEN})

TRANSIENT = (aiohttp.ClientError, OSError, TimeoutError)


class DeliveryDelayed(BotError):
    """Discord cannot take the message now; retry in `seconds` at the earliest."""

    def __init__(self, message: str, *, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class FilesGone(BotError):
    """The files `names` of a message are missing."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"files are gone: {', '.join(names)}")
        self.names = tuple(names)


class Refusal(StrEnum):
    """Why a message cannot be shown; the last refusal is stored as the delivery's outcome."""

    LATER = "later"
    TOO_LARGE = "too_large"
    DEAD_TOKEN = "dead_token"  # noqa: S105 - a name, not a secret
    NO_MESSAGE = "no_message"
    PRIVATE_EXPIRED = "private_expired"
    MESSAGE_DELETED = "message_deleted"
    CHANNEL_DELETED = "channel_deleted"
    SERVER_DELETED = "server_deleted"
    THREAD_ARCHIVED = "thread_archived"
    NO_ACCESS = "no_access"
    NO_PERMISSION = "no_permission"
    DIRECT_CLOSED = "direct_closed"
    REJECTED = "rejected"


class Refused(Exception):
    """A request that Discord refused; `limit` is the limit of a too large file in bytes, if known."""

    def __init__(self, refusal: Refusal, *, limit: int = 0) -> None:
        super().__init__(refusal)
        self.refusal = refusal
        self.limit = limit


FINAL = frozenset(  # no other way can show the message
    {Refusal.TOO_LARGE, Refusal.MESSAGE_DELETED, Refusal.REJECTED, Refusal.DIRECT_CLOSED}
)
CLOSED = frozenset(  # the bot cannot post there either
    {Refusal.CHANNEL_DELETED, Refusal.SERVER_DELETED, Refusal.NO_ACCESS, Refusal.NO_PERMISSION}
)
OF_CODE: Mapping[int, Refusal] = {
    SLOWMODE: Refusal.LATER,
    TOO_MANY_EDITS: Refusal.LATER,
    REQUEST_TOO_LARGE: Refusal.TOO_LARGE,
    UNKNOWN_MESSAGE: Refusal.MESSAGE_DELETED,
    UNKNOWN_CHANNEL: Refusal.CHANNEL_DELETED,
    UNKNOWN_GUILD: Refusal.SERVER_DELETED,
    ARCHIVED: Refusal.THREAD_ARCHIVED,
    LOCKED: Refusal.THREAD_ARCHIVED,
    CANNOT_MESSAGE_USER: Refusal.DIRECT_CLOSED,
    EXPLICIT_CONTENT: Refusal.DIRECT_CLOSED,
    NO_MUTUAL_SERVER: Refusal.DIRECT_CLOSED,
}


def understand(error: discord.HTTPException, *, by_token: bool) -> Refusal:
    """Return the meaning of `error`; `by_token` for a request with an interaction's token."""
    if error.status >= 500 or error.status == 429 or (error.status == 401 and not by_token):
        return Refusal.LATER  # the bot's own token was refused: the client stops, and the delivery waits
    if error.code in OF_CODE:
        return OF_CODE[error.code]
    if error.status == 413:
        return Refusal.TOO_LARGE
    if error.status == 403:
        return _forbidden(error.code, by_token=by_token)
    if by_token and (error.code in DEAD_TOKEN or error.status in (401, 404)):
        return Refusal.DEAD_TOKEN
    if error.status == 404:
        return Refusal.MESSAGE_DELETED
    return Refusal.REJECTED


def _forbidden(code: int, *, by_token: bool) -> Refusal:
    """Return the meaning of a 403. An unknown code is no reason to give a result up."""
    if code not in NO_ACCESS | DEAD_TOKEN | {MISSING_PERMISSIONS}:
        return Refusal.LATER
    if by_token:
        return Refusal.DEAD_TOKEN
    return Refusal.NO_PERMISSION if code == MISSING_PERMISSIONS else Refusal.NO_ACCESS
