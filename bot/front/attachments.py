"""Fetches attachments: from Discord's hosts only, within a size and a time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Container, Iterable
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import TypeVar

import aiohttp
from yarl import URL

from bot.errors import UserMistake
from bot.front.decoding import Decoder
from bot.front.pictures import Limits, Picture, Unfit, check_length
from bot.front.resolver import Resolver
from bot.front.waiting_room import WaitingRoom
from bot.moderation.limits import Pace, Sender
from sdjax_engine.errors import InvalidRequest

log = logging.getLogger(__name__)

T = TypeVar("T")

CDN = ("https://cdn.discordapp.com", "https://media.discordapp.net")
FOLDERS = ("attachments", "ephemeral-attachments")
PROXIES = (
    "https://images-ext-1.discordapp.net",
    "https://images-ext-2.discordapp.net",
    "https://media.discordapp.net",
)
EXTERNAL = ("external",)
FETCH_SECONDS = 30.0  # a fetch usually takes 1 s; an interaction's token lives for 15 minutes
PLAIN = MappingProxyType({"Accept-Encoding": "identity"})
GONE = (403, 404, 410)  # an expired address, or a deleted file


class Attachments:
    """Turns attachments into pictures. An unusable file costs its sender tokens of `pace`.

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
        self._resolver = resolver or Resolver()
        self._limits = limits
        self._decoder = decoder
        self._room = room
        self._pace = pace
        self._origins = frozenset({URL(address).origin() for address in (*CDN, api_url)})
        self._proxies = frozenset({URL(address).origin() for address in (*PROXIES, api_url)})
        self._timeout = aiohttp.ClientTimeout(total=fetch_seconds)

    def check(self, size: int, *, what: str) -> None:
        """Raise for a file that is too large by the size in Discord's payload, before it is fetched."""
        self._check_length(size, what)

    def reachable(self, addresses: Iterable[str]) -> str | None:
        """Return the first of the addresses that is at one of Discord's hosts, or None."""
        return next(filter(self._is_ours, addresses), None)

    def turn(self, sender: Sender) -> AbstractAsyncContextManager[None]:
        """Wait for a turn to fetch and decode; raises UserMistake `files_busy`."""
        return self._room.turn(sender)

    async def picture(self, address: str, *, what: str, sender: Sender) -> Picture:
        """Return the picture at `address`, cleaned."""
        data = await self.fetch(address, what=what)
        return await self._used(self._decoder.picture(data, what=what), sender)

    async def mask(self, address: str, *, what: str, sender: Sender) -> bytes:
        """Return the mask at `address` as a grey PNG."""
        data = await self.fetch(address, what=what)
        return await self._used(self._decoder.mask(data, what=what), sender)

    async def fetch(self, address: str, *, what: str) -> bytes:
        """Return the bytes of the file at `address`, which must be one of Discord's."""
        if not self._is_ours(address):
            log.warning("an attachment is not fetched: its address is none of Discord's")
            raise UserMistake("picture_unreachable", what=what)
        try:
            async with (
                # No content encoding, so that the body has the stated length.
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(resolver=self._resolver),
                    timeout=self._timeout,
                    auto_decompress=False,
                ) as session,
                session.get(URL(address, encoded=True), allow_redirects=False, headers=PLAIN) as response,
            ):
                return await self._body(response, what)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("an attachment could not be fetched: %s", error)
            raise UserMistake("picture_unreachable", what=what) from error

    def _is_ours(self, address: str) -> bool:
        return is_attachment(address, self._origins) or is_proxied(address, self._proxies)

    async def _body(self, response: aiohttp.ClientResponse, what: str) -> bytes:
        if response.status in GONE and response.content_type != "text/html":  # a page is not the store's
            raise UserMistake("picture_gone", what=what)
        if response.status != 200:
            log.warning("an attachment could not be fetched: Discord answered %d", response.status)
            raise UserMistake("picture_unreachable", what=what)
        data = bytearray()
        async for piece in response.content.iter_any():
            data += piece
            self._check_length(len(data), what)
        return bytes(data)

    def _check_length(self, length: int, what: str) -> None:
        try:
            check_length(length, limits=self._limits)
        except Unfit as error:
            raise self._decoder.mistake(error.problem, what=what) from None

    async def _used(self, decoding: Awaitable[T], sender: Sender) -> T:
        try:
            return await decoding
        except (InvalidRequest, UserMistake):
            self._pace.refused_file(sender)
            raise


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
