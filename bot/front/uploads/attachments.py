"""Fetches attachments: from Discord's hosts only, within a size and a time, some at a time."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import Counter
from collections.abc import AsyncIterator, Container, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from weakref import WeakValueDictionary

import aiohttp
from yarl import URL

from bot.domain.errors import UserMistake
from bot.front.uploads.decoder import Decoder
from bot.front.uploads.resolver import PublicResolver, Resolver
from bot.front.uploads.untrusted_picture import Limits, Picture, Unfit, check_length
from bot.moderation.limits import Pace, Sender
from bot.process.proxies import ProxyConnector, proxy_hosts, proxy_of
from bot.provenance.inspection import Mark

log = logging.getLogger(__name__)

CDN = ("https://cdn.discordapp.com", "https://media.discordapp.net")
FOLDERS = ("attachments", "ephemeral-attachments")
PROXIES = (
    "https://images-ext-1.discordapp.net",
    "https://images-ext-2.discordapp.net",
    "https://media.discordapp.net",
)
EXTERNAL = ("external",)
FETCH_SECONDS = 30.0  # a fetch usually takes 1 s; an interaction's token lives for 15 minutes
FOREIGN_SECONDS = 10.0  # for all files of a request that come from other hosts by Discord's proxy
SILENCE = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=5.0)
SLOW_SECONDS = 3.0  # of a body without a lowest speed
LEAST_SPEED = 32_768  # bytes a second after them, on average
FILES_HELD = 4  # of the largest size, in memory at once: from Discord, and as many from other hosts
PLAIN = MappingProxyType({"Accept-Encoding": "identity"})
GONE = (403, 404, 410)  # an expired address, or a deleted file


@dataclass(kw_only=True)
class Turn:
    """A person's request with files, which are fetched one after the other.

    It holds `held` bytes of one file; `foreign`: the file comes from another host. `foreign_seconds` are left
    to the request for other hosts, and `decoding_seconds` of the decoder are used by its files.
    """

    sender: Sender
    held: int = 0
    foreign: bool = False
    foreign_seconds: float = FOREIGN_SECONDS
    decoding_seconds: float = 0.0


class Attachments:
    """Turns attachments into pictures. Files that take the decoder long cost their sender tokens of `pace`.

    Every failure is a `UserMistake` or an `InvalidRequest` that names the file as `what`.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        decoder: Decoder,
        room: WaitingRoom,
        pace: Pace,
        api_url: str,
        resolver: Resolver | None = None,
        fetch_seconds: float = FETCH_SECONDS,
    ) -> None:
        sandbox = URL(api_url)
        private = {sandbox.host or ""} if sandbox.scheme == "http" else ()
        self._resolver = PublicResolver(resolver or Resolver(), private={*private, *proxy_hosts()})
        self._limits = limits
        self._decoder = decoder
        self._room = room
        self._pace = pace
        self._origins = frozenset({URL(address).origin() for address in (*CDN, api_url)})
        self._proxies = frozenset({URL(address).origin() for address in (*PROXIES, api_url)})
        self._fetch_seconds = fetch_seconds
        self._held = Counter[bool]()  # bytes, of other hosts and of Discord

    def check(self, size: int, *, what: str) -> None:
        """Raise for a file that is too large by the size in Discord's payload, before it is fetched."""
        self._check_length(size, what)

    def reachable(self, addresses: Iterable[str]) -> str | None:
        """Return the first of the addresses that is at one of Discord's hosts, or None."""
        return next(filter(self._is_ours, addresses), None)

    @asynccontextmanager
    async def turn(self, sender: Sender) -> AsyncIterator[Turn]:
        """Wait for the sender's earlier requests, and hold a place; raises UserMistake `files_busy`."""
        async with self._room.turn(sender):
            turn = Turn(sender=sender)
            try:
                yield turn
            finally:
                self._let_go(turn)

    async def picture(self, address: str, *, what: str, turn: Turn) -> Picture:
        """Return the picture at `address`, cleaned; its transparent pixels are white."""
        data = await self.fetch(address, what=what, turn=turn)
        used = functools.partial(self._charge, turn)
        return await self._decoder.picture(data, what=what, used=used)

    async def mask(self, address: str, *, what: str, turn: Turn) -> bytes:
        """Return the mask at `address` as a grey PNG."""
        data = await self.fetch(address, what=what, turn=turn)
        return await self._decoder.mask(data, what=what, used=functools.partial(self._charge, turn))

    async def given(self, address: str, *, what: str, turn: Turn, background: str) -> Picture:
        """Return the picture at `address`, cleaned, but with a manifest that says that AI made it.

        Its transparent pixels have the colour `background`.
        """
        data = await self.fetch(address, what=what, turn=turn)
        used = functools.partial(self._charge, turn)
        picture = await self._decoder.picture(data, what=what, used=used, background=background)
        return await self._decoder.with_manifest(picture, data, what=what, used=used)

    async def inspected(self, address: str, *, what: str, turn: Turn) -> tuple[list[Mark], str, bytes]:
        """Return the marks of AI in the picture at `address`, its `digest_of`, and it as a clean PNG.

        The digest is empty where the marks could not be read.
        """
        data = await self.fetch(address, what=what, turn=turn)
        used = functools.partial(self._charge, turn)
        picture = await self._decoder.picture(data, what=what, used=used)
        return *await self._decoder.marks(data, what=what, used=used), picture.png

    async def fetch(self, address: str, *, what: str, turn: Turn) -> bytes:
        """Return the bytes of the file at `address`, which must be one of Discord's.

        The turn holds them until it ends or fetches another file. Raises UserMistake `files_busy` while all
        requests together hold too much.
        """
        if not self._is_ours(address):
            log.warning("an attachment is not fetched: its address is none of Discord's")
            raise UserMistake("picture_unreachable", what=what)
        self._let_go(turn)
        turn.foreign = is_proxied(address, self._proxies)
        began = asyncio.get_running_loop().time()
        url = URL(address, encoded=True)
        try:
            if proxy_of(url):
                await self._resolver.check(url.host or "")
            async with (
                asyncio.timeout(turn.foreign_seconds if turn.foreign else self._fetch_seconds),
                # No content encoding, so that the body has the stated length.
                aiohttp.ClientSession(
                    connector=ProxyConnector(resolver=self._resolver),
                    timeout=SILENCE,
                    auto_decompress=False,
                ) as session,
                session.get(url, allow_redirects=False, headers=PLAIN) as response,
            ):
                return await self._body(response, what, turn)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("an attachment could not be fetched: %s", error)
            raise UserMistake("picture_unreachable", what=what) from error
        finally:
            if turn.foreign:
                turn.foreign_seconds -= asyncio.get_running_loop().time() - began

    def _is_ours(self, address: str) -> bool:
        return is_attachment(address, self._origins) or is_proxied(address, self._proxies)

    async def _body(self, response: aiohttp.ClientResponse, what: str, turn: Turn) -> bytes:
        if response.status in GONE and response.content_type != "text/html":  # a page is not the store's
            raise UserMistake("picture_gone", what=what)
        if response.status != 200:
            log.warning("an attachment could not be fetched: Discord answered %d", response.status)
            raise UserMistake("picture_unreachable", what=what)
        data, loop = bytearray(), asyncio.get_running_loop()
        began = loop.time()
        async for piece in response.content.iter_any():
            data += piece
            turn.held += len(piece)
            self._held[turn.foreign] += len(piece)
            self._check_length(len(data), what)
            if self._held[turn.foreign] > FILES_HELD * self._limits.max_bytes:
                raise UserMistake("files_busy")
            if len(data) < LEAST_SPEED * (loop.time() - began - SLOW_SECONDS):
                raise TimeoutError("its host is too slow")
        return bytes(data)

    def _let_go(self, turn: Turn) -> None:
        self._held[turn.foreign] -= turn.held
        turn.held = 0

    def _check_length(self, length: int, what: str) -> None:
        try:
            check_length(length, limits=self._limits)
        except Unfit as error:
            raise self._decoder.mistake(error.problem, what=what) from None

    def _charge(self, turn: Turn, seconds: float) -> None:
        """Take the tokens of decoding from the sender; the files of a turn share the token of the request."""
        self._pace.used_decoder(turn.sender, seconds, before=turn.decoding_seconds)
        turn.decoding_seconds += seconds


def is_attachment(address: str, origins: frozenset[URL]) -> bool:
    """Return whether `address` is an uploaded file at one of `origins`."""
    return _is_within(address, origins, FOLDERS)


def is_proxied(address: str, origins: frozenset[URL]) -> bool:
    """Return whether `address` is another host's picture behind Discord's proxy, at one of `origins`."""
    return _is_within(address, origins, EXTERNAL)


def _is_within(address: str, origins: frozenset[URL], folders: Container[str]) -> bool:
    try:
        url = URL(address, encoded=True)
        folder = url.parts[1] if len(url.parts) > 1 else ""
        return url.origin() in origins and folder in folders and ".." not in url.parts and url.user is None
    except (ValueError, IndexError):
        return False


class WaitingRoom:
    """Admits `places` requests with files at once; a person may have an eighth of them, a server half.

    `places` may change. Admitted requests of different people run side by side, because a host that answers
    slowly must keep nobody else waiting. A person's requests run one at a time.
    """

    def __init__(self, *, places: int) -> None:
        self.places = places
        self._people: Counter[int] = Counter()
        self._servers: Counter[int] = Counter()
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, sender: Sender) -> AsyncIterator[None]:
        """Wait for a turn and hold it until left; raises UserMistake `files_busy` where no place is free."""
        self._enter(sender)
        turn = self._turns.get(sender.user_id)
        if turn is None:
            turn = self._turns[sender.user_id] = asyncio.Lock()
        try:
            async with turn:
                yield
        finally:
            self._leave(sender)

    def _enter(self, sender: Sender) -> None:
        full = self._people.total() >= self.places
        full = full or self._people[sender.user_id] >= max(1, self.places // 8)
        if sender.guild_id is not None:
            full = full or self._servers[sender.guild_id] >= max(1, self.places // 2)
        if full:
            raise UserMistake("files_busy")
        self._people[sender.user_id] += 1
        if sender.guild_id is not None:
            self._servers[sender.guild_id] += 1

    def _leave(self, sender: Sender) -> None:
        for counts, key in ((self._people, sender.user_id), (self._servers, sender.guild_id)):
            if key is not None:
                counts[key] -= 1
                if not counts[key]:
                    del counts[key]
