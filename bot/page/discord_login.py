"""Login with Discord: the authorization code grant of OAuth2 (RFC 6749), with the scope `identify` alone.

The state is bound to the browser by a cookie, and is used once. The person's token is forgotten as soon as
it has told whose account it is.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable

from aiohttp import web

from bot.page.discord_api import Account, DiscordApi
from bot.page.guard import Guard, back

BACK = "/discord/back"
STATE_SECONDS = 600.0
MOST_STATES = 1000
EXCHANGES, EXCHANGE_SECONDS = 20, 10.0
MOST_CODE = 200  # characters
COOKIE = "sdjax-state"


class LoginFailed(Exception):
    """This login cannot go on; `trouble` chooses the sentence of the entrance."""

    def __init__(self, trouble: str) -> None:
        super().__init__(trouble)
        self.trouble = trouble


class DiscordLogin:
    """The logins that are under way; `url` is what browsers call the page, `clock` is monotonic."""

    def __init__(
        self, api: DiscordApi, guard: Guard, url: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._guard = guard
        self._redirect_uri = f"{url}{BACK}"
        self._clock = clock
        self._states: dict[str, float] = {}  # with their ends, the oldest first
        self._exchanges: deque[float] = deque(maxlen=EXCHANGES)

    async def begin(self, request: web.Request) -> web.Response:
        """Send the browser to Discord; raises DiscordUnavailable."""
        state = secrets.token_urlsafe(32)
        address = await self._api.login_url(state=state, redirect_uri=self._redirect_uri)
        if len(self._states) >= MOST_STATES:
            del self._states[next(iter(self._states))]
        self._states[state] = self._clock() + STATE_SECONDS
        answer = back(address)
        # Discord leads back from its own site, so the cookie cannot be strict.
        self._guard.set_cookie(request, answer, COOKIE, state, max_age=int(STATE_SECONDS), samesite="Lax")
        return answer

    async def end(self, request: web.Request) -> Account:
        """Return the account that Discord has sent back; raises LoginFailed, DiscordUnavailable."""
        given, ours = request.query.get("state", ""), self._guard.cookie(request, COOKIE)
        bound = secrets.compare_digest(given.encode(errors="replace"), ours.encode(errors="replace"))
        if not (given and bound) or self._states.pop(given, 0.0) <= self._clock():
            raise LoginFailed("state")
        code = request.query.get("code", "")
        if not 0 < len(code) <= MOST_CODE:
            raise LoginFailed("denied")
        now = self._clock()
        if len(self._exchanges) == EXCHANGES and now - self._exchanges[0] < EXCHANGE_SECONDS:
            raise LoginFailed("busy")
        self._exchanges.append(now)
        account = await self._api.account(code, redirect_uri=self._redirect_uri)
        if account is None:
            raise LoginFailed("code")
        return account

    def forget(self, request: web.Request, answer: web.Response) -> None:
        """Delete the browser's cookie: its state is used."""
        self._guard.set_cookie(request, answer, COOKIE, "", max_age=0, samesite="Lax")
