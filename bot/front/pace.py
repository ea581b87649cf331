"""Rate limits of people and servers: a token bucket for each; no I/O, no Discord.

A bucket holds a minute's tokens and fills evenly, so a minute's requests may come at once. Buckets belong to
this process. One front gets all commands of a server, so a server has one bucket. A person has one bucket at
each front that serves one of the person's servers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from bot.errors import UserMistake

MINUTE = 60.0
REFUSED_FILE = 3.0  # extra tokens for a file that cannot be used
MOST_BUCKETS = 10_000  # beyond this number full buckets are dropped


@dataclass(frozen=True, kw_only=True)
class Sender:
    """The person and the server of a command; no server in direct messages."""

    user_id: int
    guild_id: int | None


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Tokens a minute: requests and files, of a person and of a server. 0 means no limit."""

    requests: int = 0
    server_requests: int = 0
    files: int = 0
    server_files: int = 0


class Buckets:
    """A bucket of `per_minute` tokens for each key; a missing bucket is full."""

    def __init__(self, per_minute: int) -> None:
        self._size = float(per_minute)
        self._levels: dict[Hashable, tuple[float, float]] = {}  # tokens, and when they were counted

    def resize(self, per_minute: int) -> None:
        """Let each bucket have another size; tokens that were taken stay taken."""
        grown = per_minute - self._size
        self._levels = {
            key: (max(-per_minute, level + grown), at) for key, (level, at) in self._levels.items()
        }
        self._size = float(per_minute)

    def wait(self, key: Hashable, count: float, *, now: float) -> float:
        """Return the seconds until `count` tokens can be taken; 0 for now."""
        if not self._size:
            return 0.0
        missing = min(count, self._size) - self._level(key, now)
        return max(0.0, missing) * MINUTE / self._size

    def take(self, key: Hashable, count: float, *, now: float) -> None:
        """Take tokens, also below zero; a bucket is never lower than a minute's tokens below zero."""
        if not self._size:
            return
        if len(self._levels) >= MOST_BUCKETS:
            self._levels = {
                other: counted
                for other, counted in self._levels.items()
                if self._level(other, now) < self._size
            }
        self._levels[key] = max(-self._size, self._level(key, now) - count), now

    def _level(self, key: Hashable, now: float) -> float:
        level, counted_at = self._levels.get(key, (self._size, now))
        return min(self._size, level + max(0.0, now - counted_at) * self._size / MINUTE)


class Pace:
    """The buckets of all people and servers; `clock` is in seconds and monotonic."""

    def __init__(self, rates: Rates, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._requests = Buckets(rates.requests)
        self._server_requests = Buckets(rates.server_requests)
        self._files = Buckets(rates.files)
        self._server_files = Buckets(rates.server_files)

    def change(self, rates: Rates) -> None:
        """Go on with other rates. What has been taken stays taken."""
        self._requests.resize(rates.requests)
        self._server_requests.resize(rates.server_requests)
        self._files.resize(rates.files)
        self._server_files.resize(rates.server_files)

    def admit(self, sender: Sender, *, files: int = 0) -> None:
        """Take the tokens of a request with so many files, all or none.

        Raises UserMistake `too_quick`, `server_too_quick`, `files_too_quick` or `server_files_too_quick`
        with the `seconds` to wait.
        """
        now = self._clock()
        taken = [(self._requests, sender.user_id, 1, "too_quick")]
        if sender.guild_id is not None:
            taken.append((self._server_requests, sender.guild_id, 1, "server_too_quick"))
        if files:
            taken.append((self._files, sender.user_id, files, "files_too_quick"))
        if files and sender.guild_id is not None:
            taken.append((self._server_files, sender.guild_id, files, "server_files_too_quick"))
        for buckets, key, count, problem in taken:
            if seconds := buckets.wait(key, count, now=now):
                raise UserMistake(problem, seconds=math.ceil(seconds))
        for buckets, key, count, _ in taken:
            buckets.take(key, count, now=now)

    def give_back(self, sender: Sender, *, files: int = 0) -> None:
        """Give back the tokens of a request that was admitted and is refused for another reason."""
        now = self._clock()
        self._requests.take(sender.user_id, -1, now=now)
        self._files.take(sender.user_id, -files, now=now)
        if sender.guild_id is not None:
            self._server_requests.take(sender.guild_id, -1, now=now)
            self._server_files.take(sender.guild_id, -files, now=now)

    def refused_file(self, sender: Sender) -> None:
        """Take tokens for a file that could not be used."""
        self._files.take(sender.user_id, REFUSED_FILE, now=self._clock())
