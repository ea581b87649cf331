"""The entrance: a link opens a session, whose secret is in a cookie."""

from __future__ import annotations

from aiohttp import web

from bot.page.guard import Guard
from bot.store.operations.logins import Login, Logins

MOST_CHARACTERS = 100  # of a secret
COOKIE, ENCRYPTED_COOKIE = "sdjax-login", "__Host-sdjax-login"


class Entrance:
    """Opens, finds and ends the sessions of requests."""

    def __init__(self, logins: Logins, guard: Guard) -> None:
        self._logins = logins
        self._guard = guard

    async def who(self, request: web.Request) -> Login | None:
        """Return the session of a request; None without one."""
        secret = self._secret(request)
        return await self._logins.find(secret) if secret else None

    async def enter(self, request: web.Request, link: str) -> web.Response | None:
        """Open a session with a link and answer with its cookie; None for a link that is over or used."""
        secret = await self._logins.enter(link) if 0 < len(link) <= MOST_CHARACTERS else None
        if secret is None:
            return None
        encrypted = self._guard.is_encrypted(request)
        answer = web.Response(status=303, headers={"Location": "/"})
        name = ENCRYPTED_COOKIE if encrypted else COOKIE
        answer.set_cookie(name, secret, path="/", secure=encrypted, httponly=True, samesite="Strict")
        return answer

    async def leave(self, request: web.Request, *, everywhere: bool) -> web.Response:
        """End the session of a request, or all of its person."""
        await self._logins.leave(self._secret(request), everywhere=everywhere)
        answer = web.Response(status=303, headers={"Location": "/"})
        encrypted = self._guard.is_encrypted(request)
        answer.del_cookie(ENCRYPTED_COOKIE if encrypted else COOKIE, path="/", secure=encrypted)
        return answer

    def _secret(self, request: web.Request) -> str:
        encrypted = self._guard.is_encrypted(request)
        return request.cookies.get(ENCRYPTED_COOKIE if encrypted else COOKIE, "")[:MOST_CHARACTERS]
