"""Looks up the addresses of Discord's hosts, in threads that no other work uses."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection

from aiohttp.abc import AbstractResolver, ResolveResult

from bot.process.threads import in_thread

PATIENCE_SECONDS = 0.5  # seconds of a look-up if earlier addresses of the host are known

HOLDING_IPV4 = tuple(map(ipaddress.ip_network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96")))
STAND_INS = ipaddress.ip_network("198.18.0.0/15")
"""Programs that carry a machine's traffic through a tunnel give names addresses of this range."""

Key = tuple[str, int, socket.AddressFamily]


class Resolver(AbstractResolver):
    """Looks up each name in a thread of its own; simultaneous requests for a name share one look-up.

    The last known addresses are used when a look-up fails or takes long.
    """

    def __init__(self) -> None:
        self._known: dict[Key, list[ResolveResult]] = {}
        self._under_way: dict[Key, asyncio.Future[list[ResolveResult]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host; raises OSError where none is known and the look-up fails."""
        key = (host, port, family)
        looking = self._under_way.get(key)
        if looking is None:
            looking = self._under_way[key] = in_thread(lambda: look_up(host, port, family), "addresses")
            looking.add_done_callback(lambda done: self._note(key, done))
        known = self._known.get(key)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS if known else None):
                return await asyncio.shield(looking)
        except OSError:  # a TimeoutError is one
            if known is None:
                raise
            return known

    async def close(self) -> None:
        """Do nothing: the resolver holds nothing."""

    def _note(self, key: Key, done: asyncio.Future[list[ResolveResult]]) -> None:
        del self._under_way[key]
        if not done.cancelled() and done.exception() is None:
            self._known[key] = done.result()


class NotPublic(OSError):
    """A host has addresses, and none of them lies on the public internet."""


class PublicResolver(AbstractResolver):
    """Gives the addresses of `resolver` that lie on the public internet, but all of the hosts in `private`.

    A name server may answer a name of its own with an address of this machine or of its network.
    """

    def __init__(self, resolver: AbstractResolver, *, private: Collection[str]) -> None:
        self._resolver = resolver
        self._private = private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host; raises OSError where none is public, and as `resolver` does."""
        found = await self._resolver.resolve(host, port, family)
        if host in self._private:
            return found
        public = [each for each in found if is_public(each["host"])]
        if not public:
            raise NotPublic(f"{host} has no public address")
        return public

    async def check(self, host: str) -> None:
        """Raise NotPublic as `resolve` does; a host that only its proxy can look up passes."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.resolve(host)
        except NotPublic:
            raise
        except OSError:  # a TimeoutError is one
            return

    async def close(self) -> None:
        """Do nothing: `resolver` has other users."""


def is_public(host: str) -> bool:
    """Return whether an address lies on the public internet, or may stand for one that does."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        last = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        holds_another = any(address in prefix for prefix in HOLDING_IPV4)
        address = last if holds_another else address.sixtofour or address
    return (address.is_global and not address.is_multicast) or address in STAND_INS


def look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    """Return the addresses of a host; takes as long as the system's resolver."""
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [
        ResolveResult(
            hostname=host,
            host=str(address[0]),
            port=int(address[1]),
            family=kind,
            proto=protocol,
            flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
        )
        for kind, _, protocol, _, address in found
    ]
