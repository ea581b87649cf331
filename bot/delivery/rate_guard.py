"""Requests to Discord: each passes the rate guard, and its error is translated.

The rate guard stops requests that Discord's limits forbid, well before Discord bans the address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import discord

from bot.delivery.refusals import TRANSIENT, DeliveryDelayed, Refusal, Refused, understand

WINDOW_SECONDS = 600.0
MAX_INVALID = 2_500  # Discord bans an address at 10,000 in ten minutes; other programs may share the address
TOO_MANY = 429
INVALID = frozenset({401, 403, TOO_MANY})
BAN_SECONDS = 60.0  # used if a ban has no Retry-After


class RateGuard:
    """Counts refused requests of all messages, and says before each request whether it may be made."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits_until = 0.0
        self._quiet_until = 0.0
        self._window_ends = 0.0
        self._invalid = 0

    @contextmanager
    def request(self, *, by_token: bool) -> Iterator[None]:
        """Surround one request to Discord, made by an interaction's token or by the bot itself.

        Raises Refused and DeliveryDelayed in place of the errors of discord.py and of the connection.
        """
        self.check(by_token=by_token)
        try:
            yield
        except BaseException as error:
            self.note(error)
            _raise_translated(error, by_token=by_token)
            raise
        else:
            self.note(None)

    def check(self, *, by_token: bool) -> None:
        """Raise `DeliveryDelayed` with the seconds to wait if this request must not be made now.

        The bot's own rate limit does not apply to requests `by_token` of an interaction.
        """
        until = self._quiet_until if by_token else max(self._quiet_until, self._waits_until)
        left = until - self._clock()
        if left > 0:
            raise DeliveryDelayed(f"Discord wants no requests for {left:.0f} s", seconds=left)

    def note(self, error: BaseException | None) -> None:
        """Record how a request ended: `error`, or None for success."""
        now = self._clock()
        if isinstance(error, discord.RateLimited):
            self._waits_until = max(self._waits_until, now + error.retry_after)
            self._count(now)
        elif isinstance(error, discord.HTTPException) and error.status in INVALID:
            if error.status == TOO_MANY and "Via" not in error.response.headers:
                # Cloudflare banned this address. discord.py does not retry then.
                self._quiet_until = max(self._quiet_until, now + _seconds_to_wait(error))
            self._count(now)

    def _count(self, now: float) -> None:
        if now >= self._window_ends:
            self._window_ends, self._invalid = now + WINDOW_SECONDS, 0
        self._invalid += 1
        if self._invalid >= MAX_INVALID:
            self._quiet_until = max(self._quiet_until, self._window_ends)


def _raise_translated(error: BaseException, *, by_token: bool) -> None:
    if isinstance(error, discord.HTTPException):
        refusal = understand(error, by_token=by_token)
        if refusal is Refusal.LATER:
            raise DeliveryDelayed(str(error)) from error
        raise Refused(refusal) from error
    if isinstance(error, discord.RateLimited):
        raise DeliveryDelayed(str(error), seconds=error.retry_after) from error
    if isinstance(error, TRANSIENT):
        raise DeliveryDelayed(f"Discord cannot be reached: {error}") from error


def _seconds_to_wait(error: discord.HTTPException) -> float:
    try:
        return float(error.response.headers.get("Retry-After", BAN_SECONDS))
    except ValueError:
        return BAN_SECONDS
