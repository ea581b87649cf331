"""Login with Discord (OAuth2, RFC 6749): members authorize an application, which learns their accounts.

The page of `/oauth2/authorize` asks which member logs in. Its answer is a code for the registered address of
the application; `/oauth2/token` exchanges the code, once, for a token of the member's account.
"""

from __future__ import annotations

import base64
import binascii
import html
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import hdrs, web
from yarl import URL

from bot.sandbox.log import Log
from bot.sandbox.rejections import Json
from bot.sandbox.state import World, number_of

CLIENT_SECRET = "a-secret"  # noqa: S105 - of a sandbox that is given no other
CODE_SECONDS = 600.0
TOKEN_SECONDS = 604_800.0
SCOPES = frozenset({"identify"})
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, kw_only=True)
class _Code:
    user_id: int
    redirect_uri: str
    expires_at: float


class Logins:
    """The codes and tokens of members, and the addresses that the application has registered."""

    def __init__(self, world: World, log: Log, clock: Callable[[], float], client_secret: str) -> None:
        self.redirect_uris: list[str] = []
        self.client_secret = client_secret
        self._world = world
        self._log = log
        self._clock = clock
        self._codes: dict[str, _Code] = {}
        self._tokens: dict[str, tuple[int, float]] = {}

    def routes(self, prefix: str) -> list[web.RouteDef]:
        """Return the routes; `prefix` is that of the REST API."""
        return [
            web.get("/oauth2/authorize", self._ask),
            web.post("/oauth2/authorize", self._authorize),
            web.post(f"{prefix}/oauth2/token", self._exchange),
        ]

    def user_of(self, token: str) -> int | None:
        """Return whose account a token opens; None for an unknown or an expired one."""
        user_id, expires_at = self._tokens.get(token, (None, 0.0))
        return user_id if expires_at > self._clock() else None

    async def _ask(self, request: web.Request) -> web.Response:
        if mistake := self._mistake(request.query):
            return self._refused(mistake)
        members = "".join(
            f'<button name="member" value="{member.user.id}">{html.escape(member.user.global_name)}</button> '
            for member in self._world.members.values()
            if not member.user.bot
        )
        bot = html.escape(self._world.user(self._world.bot_id).global_name)
        text = (
            f"<!doctype html><html lang=en><meta charset=utf-8><title>Authorize {bot}</title>"
            f"<h1>{bot} wants to know who you are</h1><form method=post>{members}"
            "<button name=cancel value=yes>Cancel</button></form>"
        )
        return web.Response(text=text, content_type="text/html")

    async def _authorize(self, request: web.Request) -> web.Response:
        if mistake := self._mistake(request.query):
            return self._refused(mistake)
        form, back = await request.post(), URL(request.query["redirect_uri"])
        state = {"state": request.query["state"]} if "state" in request.query else {}
        user_id = number_of(form.get("member", ""))
        if user_id not in self._world.members:
            said = {"error": "access_denied", "error_description": "The resource owner denied the request"}
            return _found(back.update_query({**said, **state}))
        code = secrets.token_urlsafe(22)
        self._codes[code] = _Code(
            user_id=user_id,
            redirect_uri=request.query["redirect_uri"],
            expires_at=self._clock() + CODE_SECONDS,
        )
        return _found(back.update_query({"code": code, **state}))

    async def _exchange(self, request: web.Request) -> web.Response:
        if request.content_type != FORM:
            self._log.violation(f"{request.method} {request.path}: the body must be {FORM}")
            return _error("invalid_request", 400)
        form = {name: str(value) for name, value in (await request.post()).items()}
        client_id, secret = _basic(request) or (form.get("client_id", ""), form.get("client_secret", ""))
        is_ours = client_id == str(self._world.application_id)
        if not is_ours or not secrets.compare_digest(secret.encode(), self.client_secret.encode()):
            return _error("invalid_client", 401)
        if form.get("grant_type") != "authorization_code":
            self._log.violation(f"{request.method} {request.path}: grant_type must be authorization_code")
            return _error("unsupported_grant_type", 400)
        code = self._codes.pop(form.get("code", ""), None)  # a code is used once
        if code is None or code.expires_at <= self._clock() or code.redirect_uri != form.get("redirect_uri"):
            return _error("invalid_grant", 400, 'Invalid "code" in request.')
        token = secrets.token_urlsafe(22)
        self._tokens[token] = code.user_id, self._clock() + TOKEN_SECONDS
        return web.json_response(
            {
                "token_type": "Bearer",
                "access_token": token,
                "expires_in": int(TOKEN_SECONDS),
                "refresh_token": secrets.token_urlsafe(22),
                "scope": " ".join(SCOPES),
            }
        )

    def _mistake(self, query: Mapping[str, str]) -> str | None:
        if query.get("client_id") != str(self._world.application_id):
            return "Unknown Application"
        if query.get("redirect_uri") not in self.redirect_uris:
            return "Invalid OAuth2 redirect_uri"
        if query.get("response_type") != "code":
            return "response_type must be code"
        scopes = query.get("scope", "").split()
        return None if scopes and SCOPES.issuperset(scopes) else "The requested scope is invalid"

    def _refused(self, mistake: str) -> web.Response:
        self._log.violation(f"/oauth2/authorize: {mistake}")
        return web.Response(status=400, text=mistake)


def _found(address: URL) -> web.Response:
    return web.Response(status=302, headers={hdrs.LOCATION: str(address)})


def _error(name: str, status: int, description: str = "") -> web.Response:
    body: Json = {"error": name} | ({"error_description": description} if description else {})
    return web.json_response(body, status=status)


def _basic(request: web.Request) -> tuple[str, str] | None:
    """Return the name and the secret of an Authorization header of the kind Basic."""
    kind, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    try:
        name, _, secret = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, secret) if kind == "Basic" else None
