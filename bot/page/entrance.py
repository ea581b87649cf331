"""The entrance: a link opens a session, whose secret is in a cookie.

Secrets that were valid once are looked up whenever they come. All others share a few look-ups a second, so
that strangers who try many make the queue's database no slower.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from aiohttp import web

from bot.page.guard import Guard, back
from bot.store.operations.logins import Login, Logins

MOST_CHARACTERS = 100  # of a secret
TRIES, TRY_SECONDS = 40, 2.0
MOST_KNOWN = 200
COOKIE = "sdjax-login"


class Entrance:
    """Opens, finds and ends the sessions of requests; `clock` is monotonic."""

    def __init__(self, logins: Logins, guard: Guard, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._logins = logins
        self._guard = guard
        self._clock = clock
        self._known: dict[str, None] = {}  # in the order of their last use
        self._tries: deque[float] = deque(maxlen=TRIES)
        self._link_tries: deque[float] = deque(maxlen=TRIES)  # guessed cookies take none of them

    async def who(self, request: web.Request) -> Login | None:
        """Return the session of a request; None without one."""
        secret = self._secret(request)
        if not secret or not (secret in self._known or self.may_try()):
            return None
        login = await self._logins.find(secret)
        self._known.pop(secret, None)
        if login is not None:
            self._known[secret] = None
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
        return login

    def knows(self, request: web.Request) -> bool:
        """Return whether a request has the secret of a session that was alive when it was last looked up."""
        return self._secret(request) in self._known

    async def enter(self, request: web.Request, link: str) -> web.Response | None:
        """Open a session with a link and answer with its cookie; None for a link that is over or used."""
        possible = 0 < len(link) <= MOST_CHARACTERS and self._may_try(self._link_tries)
        secret = await self._logins.enter(link) if possible else None
        if secret is None:
            return None
        answer = back("/")
        self._guard.set_cookie(request, answer, COOKIE, secret)
        return answer

    async def open(self, request: web.Request, answer: web.Response, user_id: int) -> None:
        """Open a session of a person, whose cookie goes with `answer`."""
        self._guard.set_cookie(request, answer, COOKIE, await self._logins.open(user_id))

    async def leave(self, request: web.Request, *, everywhere: bool) -> web.Response:
        """End the session of a request, or all of its person."""
        await self._logins.leave(self._secret(request), everywhere=everywhere)
        answer = back("/")
        self._guard.set_cookie(request, answer, COOKIE, "", max_age=0)
        return answer

    def may_try(self) -> bool:
        """Count one look-up of a secret that may be anybody's; False beyond TRIES in TRY_SECONDS."""
        return self._may_try(self._tries)

    def _may_try(self, tries: deque[float]) -> bool:
        now = self._clock()
        if len(tries) == TRIES and now - tries[0] < TRY_SECONDS:
            return False
        tries.append(now)
        return True

    def _secret(self, request: web.Request) -> str:
        return self._guard.cookie(request, COOKIE)[:MOST_CHARACTERS]
