"""A proxy on 127.0.0.1 for names that only it knows: tunnels, and requests with whole addresses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

LINE_END = b"\r\n"


@dataclass(kw_only=True)
class ForwardProxy:
    """The proxy: every name is this machine for it. `asked` has the first line of each request, and `logins`
    its Proxy-Authorization."""

    address: str = ""
    asked: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        first, *headers = (await reader.readuntil(2 * LINE_END)).removesuffix(2 * LINE_END).split(LINE_END)
        self.asked.append(first.decode())
        told = dict(header.split(b": ", 1) for header in headers)
        self.logins.append(told.pop(b"Proxy-Authorization", b"").decode())
        port = int(re.findall(rb":(\d+)", first)[0])
        there, onward = await asyncio.open_connection("127.0.0.1", port)
        if first.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            told[b"Host"] = b"127.0.0.1:%d" % port
            if b"Upgrade" not in told:
                told[b"Connection"] = b"close"
            lines = [re.sub(rb"\w+://[^/]+", b"", first, count=1), *map(b": ".join, told.items())]
            onward.write(LINE_END.join(lines) + 2 * LINE_END)
        await asyncio.gather(_pass_on(reader, onward), _pass_on(there, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def forward_proxy() -> AsyncIterator[ForwardProxy]:
    """Run a proxy until the block ends."""
    proxy = ForwardProxy()
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.serve(reader, writer))
        connections.add(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
