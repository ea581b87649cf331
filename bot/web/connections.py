"""The connections to the pages: few, each with time limits.

The pages share the files, the memory and the log of the process with the bot. Anybody who reaches the port
can open connections that never send a request or never read an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

MOST_CONNECTIONS = 64
REQUEST_SECONDS = 5.0
ANSWER_SECONDS = 15.0  # Prometheus waits 10 s


class Connections:
    """The open connections, oldest first: `_silent` have sent no request yet.

    A connection is closed without a request after REQUEST_SECONDS, and ANSWER_SECONDS after its request. A
    new one beyond `most` closes the oldest: one without a request if there is one.
    """

    def __init__(self, *, most: int = MOST_CONNECTIONS) -> None:
        self._most = most
        self._silent: dict[asyncio.Transport, asyncio.TimerHandle] = {}
        self._asking: dict[asyncio.Transport, asyncio.TimerHandle] = {}

    def counted(self, serve: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Return a factory like `serve` whose connections are counted here."""
        return lambda: _Counted(serve(), self)

    def add(self, transport: asyncio.Transport) -> None:
        """Count a new connection."""
        if len(self._silent) + len(self._asking) >= self._most:
            oldest = next(iter(self._silent or self._asking))
            self.remove(oldest)
            oldest.abort()
        self._silent[transport] = _closed_after(REQUEST_SECONDS, transport)

    def note_request(self, transport: asyncio.Transport | None) -> None:
        """Note that the headers of a connection's request are read; None is a connection that is closed."""
        if transport in self._silent:
            self.remove(transport)
            self._asking[transport] = _closed_after(ANSWER_SECONDS, transport)

    def extend(self, transport: asyncio.Transport | None, seconds: float) -> None:
        """Give a connection whose request is read this many seconds from now."""
        if transport is not None and (timer := self._asking.get(transport)) is not None:
            timer.cancel()
            self._asking[transport] = _closed_after(seconds, transport)

    def remove(self, transport: asyncio.Transport) -> None:
        """Count a connection no longer."""
        for some in (self._silent, self._asking):
            if (timer := some.pop(transport, None)) is not None:
                timer.cancel()


class _Counted(asyncio.Protocol):
    """Passes everything on to the protocol of one connection."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self._inner = inner
        self._connections = connections
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self._transport)
        self._inner.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None:
            self._connections.remove(self._transport)
        self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


def _closed_after(seconds: float, transport: asyncio.Transport) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(seconds, transport.abort)
