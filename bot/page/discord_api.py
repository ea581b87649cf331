"""The few questions to Discord that logins need: whose account a code is, and what a member may do.

Nothing of a person's account is kept but the id and the name. The bot's own token asks about servers, so no
token of a person is needed after the login.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

import aiohttp
from aiohttp import hdrs
from yarl import URL

from bot.domain.errors import DiscordUnavailable
from bot.page.guard import number_of
from bot.process.proxies import ProxyConnector

log = logging.getLogger(__name__)

ANSWER_SECONDS = 10.0
MOST_ANSWER = 8 << 20  # bytes: 500 channels, each with a hundred overwrites, are 5 MiB
LONGEST_WAIT = 2.0  # seconds that a rate limit may ask for
TRIES = 3
AT_ONCE = 4
ON_A_PAGE, MOST_PAGES = 200, 10
AGENT = "DiscordBot (sdjax-bot, 1)"
SCOPE = "identify"
ADMINISTRATOR, MANAGE_SERVER, SEE_CHANNEL = 1 << 3, 1 << 5, 1 << 10
MANAGE_MESSAGES, READ_HISTORY = 1 << 13, 1 << 16
CONNECT = 1 << 20
READS = SEE_CHANNEL | READ_HISTORY
VOICE = frozenset({2, 13})  # types of channels whose messages only those who may connect can read
EVERYTHING = -1  # all bits

Json = dict[str, Any]
Overwrites = Mapping[int, tuple[int, int]]
NOT_UNDERSTOOD = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading an answer raises that has other keys, types, times or depths than Discord's."""
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Account:
    """An account of Discord."""

    id: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Membership:
    """A member of a server: the roles without everyone's, and until when a timeout lasts."""

    name: str
    roles: tuple[int, ...]
    bot: bool = False
    silent_until: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server: the permission bits of its roles, and of each channel the bits that it allows and denies.

    `voice` are the channels for voices.
    """

    id: int
    name: str
    owner_id: int
    roles: Mapping[int, int] = field(repr=False)
    channels: Mapping[int, Overwrites] = field(repr=False)
    voice: frozenset[int] = field(default=frozenset(), repr=False)

    def permissions(self, user_id: int, member: Membership, *, now: float) -> int:
        """Return what a member may do in the whole server.

        A member in a timeout may look and read alone, unless the member is an administrator.
        """
        if user_id == self.owner_id:
            return EVERYTHING
        bits = self.roles.get(self.id, 0)
        for role in member.roles:
            bits |= self.roles.get(role, 0)
        if bits & ADMINISTRATOR:
            return EVERYTHING
        return bits & READS if member.silent_until > now else bits

    def readable(self, user_id: int, member: Membership, *, now: float) -> frozenset[int]:
        """Return the channels whose messages a member may read, without threads."""
        base = self.permissions(user_id, member, now=now)
        if base == EVERYTHING:
            return frozenset(self.channels)
        found = set()
        for channel, overwrites in self.channels.items():
            needed = READS | CONNECT if channel in self.voice else READS
            if _in_channel(base, overwrites, (self.id,), member.roles, (user_id,)) & needed == needed:
                found.add(channel)
        return frozenset(found)


def _in_channel(bits: int, overwrites: Overwrites, *levels: tuple[int, ...]) -> int:
    """Apply the overwrites of a channel in Discord's order: everyone's, the roles' together, the member's."""
    for level in levels:
        found = [overwrites[key] for key in level if key in overwrites]
        for _, denied in found:
            bits &= ~denied
        for allowed, _ in found:
            bits |= allowed
    return bits


def _understood(verb: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Return a verb that raises DiscordUnavailable for an answer that is not such as Discord's."""

    @functools.wraps(verb)
    async def asking(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await verb(*args, **kwargs)
        except NOT_UNDERSTOOD as error:
            log.warning("the page does not understand Discord's answer: %s", type(error).__name__)
            raise DiscordUnavailable("Discord does not answer.") from None

    return asking


class DiscordApi:
    """Asks Discord. `site_url` is what browsers call Discord, `api_url` what this process calls its API.

    Every verb raises DiscordUnavailable where Discord does not answer, or not as it should.
    """

    def __init__(
        self, session: aiohttp.ClientSession, *, api_url: str, site_url: str, token: str, client_secret: str
    ) -> None:
        self._session = session
        self._api_url = api_url.rstrip("/")
        self._site_url = URL(site_url)
        self._token = token
        self._client_secret = client_secret
        self._client_id: str | None = None
        self._turns = asyncio.Semaphore(AT_ONCE)

    @_understood
    async def login_url(self, *, state: str, redirect_uri: str) -> str:
        """Return the page of Discord on which a person logs in, and which leads back to `redirect_uri`."""
        query = {"client_id": await self._id(), "response_type": "code", "scope": SCOPE}
        query |= {"redirect_uri": redirect_uri, "state": state, "prompt": "none"}
        return str((self._site_url / "oauth2/authorize").with_query(query))

    @_understood
    async def account(self, code: str, *, redirect_uri: str) -> Account | None:
        """Return the account of a code, which is used up; None for a code that Discord refuses."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        login = base64.b64encode(f"{await self._id()}:{self._client_secret}".encode()).decode()
        status, body = await self._ask("POST", "/oauth2/token", f"Basic {login}", data=form)
        if status != 200:
            if status == 401:
                log.error("Discord refuses the client secret of the page's login: copy it again")
            return None
        status, user = await self._ask("GET", "/users/@me", f"Bearer {body['access_token']}")
        return Account(id=_id_of(user), name=_name(user)) if status == 200 else None

    @_understood
    async def servers(self) -> dict[int, str]:
        """Return the names of the servers that the bot is in, the first ON_A_PAGE * MOST_PAGES, by id."""
        found: dict[int, str] = {}
        for _ in range(MOST_PAGES):
            query = f"?limit={ON_A_PAGE}" + (f"&after={max(found)}" if found else "")
            some = _rows(await self._known(f"/users/@me/guilds{query}"))
            found |= {_id_of(each): _text(each["name"]) for each in some}
            if len(some) < ON_A_PAGE:
                break
        return found

    @_understood
    async def server(self, guild_id: int) -> Server | None:
        """Return a server that the bot is in; None for any other."""
        guild = await self._known(f"/guilds/{guild_id}")
        channels = await self._known(f"/guilds/{guild_id}/channels")
        if guild is None or channels is None:
            return None
        return Server(
            id=guild_id,
            name=_text(guild["name"]),
            owner_id=_id_of(guild, "owner_id"),
            roles={_id_of(role): int(role["permissions"]) for role in _rows(guild["roles"])},
            channels={_id_of(each): _overwrites(each) for each in _rows(channels)},
            voice=frozenset(_id_of(each) for each in _rows(channels) if each.get("type") in VOICE),
        )

    @_understood
    async def member(self, guild_id: int, user_id: int) -> Membership | None:
        """Return a member of a server; None for a person who is not in it."""
        found = await self._known(f"/guilds/{guild_id}/members/{user_id}")
        if found is None:
            return None
        until = found.get("communication_disabled_until")
        return Membership(
            name=_text(found.get("nick") or _name(found["user"])),
            roles=tuple(map(int, found["roles"])),
            bot=bool(found["user"].get("bot")),
            silent_until=datetime.fromisoformat(until).timestamp() if until else 0.0,
        )

    async def _id(self) -> str:
        """Return the id of the bot's application."""
        if self._client_id is None:
            found = await self._known("/oauth2/applications/@me")
            if found is None:
                raise DiscordUnavailable("Discord refuses the bot's token.")
            self._client_id = str(_id_of(found))
        return self._client_id

    async def _known(self, path: str) -> Any:
        """Return what the bot's token sees; None where there is nothing for it."""
        status, body = await self._ask("GET", path, f"Bot {self._token}")
        if status in (403, 404):
            return None
        if status != 200:
            raise DiscordUnavailable(f"Discord answers with status {status}.")
        return body

    async def _ask(
        self, method: str, path: str, authorization: str, *, data: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return the status and the body of an answer; a short rate limit is waited for."""
        headers = {hdrs.AUTHORIZATION: authorization, hdrs.USER_AGENT: AGENT}
        try:
            for _ in range(TRIES):
                async with (
                    self._turns,
                    self._session.request(
                        method, f"{self._api_url}{path}", headers=headers, data=data, allow_redirects=False
                    ) as answer,
                ):
                    if answer.status < 500 and answer.status != 429:
                        return answer.status, json.loads(await _body(answer))
                    wait = float(answer.headers.get("Retry-After", 1)) if answer.status == 429 else 0.0
                if not wait <= LONGEST_WAIT or data is not None:  # a code may have been used up
                    break
                await asyncio.sleep(wait)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            log.warning("Discord does not answer the page: %s", type(error).__name__)
        raise DiscordUnavailable("Discord does not answer.")


@asynccontextmanager
async def opened(*, api_url: str, site_url: str, token: str, client_secret: str) -> AsyncIterator[DiscordApi]:
    """Open the connections to Discord for a block."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(connector=ProxyConnector(limit=AT_ONCE), timeout=timeout) as session:
        yield DiscordApi(
            session, api_url=api_url, site_url=site_url, token=token, client_secret=client_secret
        )


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for some in answer.content.iter_any():
        body += some
        if len(body) > MOST_ANSWER:
            raise ValueError("the answer is too long")
    return bytes(body)


def _name(user: Json) -> str:
    return _text(user.get("global_name") or user["username"])


def _text(said: Any) -> str:
    if not isinstance(said, str):
        raise TypeError("no text")
    said.encode()  # a lone surrogate, which a page cannot have, is a ValueError
    return said


def _id_of(each: Json, key: str = "id") -> int:
    number = number_of(_text(each[key]))
    if not number:  # no database has room for it
        raise ValueError("no id")
    return number


def _rows(said: Any) -> list[Json]:
    """Return the rows of a list; none where there is nothing for the bot."""
    if not isinstance(said, list | None):
        raise TypeError("no list")
    return said or []


def _overwrites(channel: Json) -> Overwrites:
    said = _rows(channel.get("permission_overwrites"))
    return {_id_of(each): (int(each["allow"]), int(each["deny"])) for each in said}
