"""Logins at the operators' page: links that are used once, and sessions. Only hashes are stored."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.database.database import Verbs
from bot.store.rows.audit import OPERATOR
from bot.store.tables.logins import logins

LINK, SESSION = "link", "session"
LINK_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
IDLE_SECONDS = 3600.0
NOTE_SECONDS = 60.0
"""How often it is noted that a session is used."""


@dataclass(frozen=True, kw_only=True)
class Login:
    """A session: its person, 0 for the operator, and its end in seconds since the epoch."""

    user_id: int
    expires_at: float


class Logins(Verbs):
    """The verbs of logins."""

    async def invite(self, user_id: int = OPERATOR) -> str:
        """Return the secret of a link for this person: it opens one session within LINK_SECONDS."""
        async with self._database.write() as connection:
            return await self._add(connection, LINK, user_id, LINK_SECONDS)

    async def enter(self, secret: str) -> str | None:
        """Use a link up and return the secret of its new session; None for a link that is over or used."""
        mine = (logins.c.hash == _hash(secret)) & (logins.c.kind == LINK)
        alive = mine & (logins.c.expires_at > self._clock())
        if await self._row(sa.select(logins).where(alive)) is None:  # strangers must not lock the queue
            return None
        used = sa.delete(logins).where(alive)
        async with self._database.write() as connection:
            user_id: int | None = await connection.scalar(used.returning(logins.c.user_id))
            if user_id is None:
                return None
            return await self._add(connection, SESSION, user_id, SESSION_SECONDS)

    async def open(self, user_id: int) -> str:
        """Open a session of this person and return its secret."""
        async with self._database.write() as connection:
            return await self._add(connection, SESSION, user_id, SESSION_SECONDS)

    async def find(self, secret: str) -> Login | None:
        """Return the session of this secret; None for one that is over, or unused for IDLE_SECONDS."""
        now = self._clock()
        mine = (logins.c.hash == _hash(secret)) & (logins.c.kind == SESSION)
        alive = mine & (logins.c.expires_at > now) & (logins.c.seen_at > now - IDLE_SECONDS)
        row = await self._row(sa.select(logins).where(alive))
        if row is None:
            return None
        if row.seen_at < now - NOTE_SECONDS:
            await self._write(sa.update(logins).where(alive).values(seen_at=now))
        return Login(user_id=row.user_id, expires_at=row.expires_at)

    async def leave(self, secret: str, *, everywhere: bool = False) -> None:
        """End a session, or all sessions and links of its person."""
        mine = (logins.c.hash == _hash(secret)) & (logins.c.kind == SESSION)
        theirs = logins.c.user_id == sa.select(logins.c.user_id).where(mine).scalar_subquery()
        await self._write(sa.delete(logins).where(theirs if everywhere else mine))

    async def lapse(self) -> int:
        """Delete the logins that are over, and return how many."""
        over = sa.delete(logins).where(logins.c.expires_at <= self._clock())
        return await self._write(over)

    async def _add(self, connection: AsyncConnection, kind: str, user_id: int, seconds: float) -> str:
        secret, now = secrets.token_urlsafe(32), self._clock()
        times = {"made_at": now, "seen_at": now, "expires_at": now + seconds}
        row = sa.insert(logins).values(hash=_hash(secret), kind=kind, user_id=user_id, **times)
        await connection.execute(row)
        return secret


def _hash(secret: str) -> str:
    # Secrets are 256 random bits: a slow hash would protect nothing more.
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()
