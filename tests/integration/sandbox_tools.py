"""Access to the sandbox beyond discord.py: invalid requests, a manual clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
from sandbox_bot import SmallBot

from bot.sandbox.client import Member
from bot.sandbox.community import BOT_ID, CHANNELS, GUILD_ID
from bot.sandbox.server import Sandbox

MakeMember = Callable[..., Awaitable[Member]]
MakeBot = Callable[..., Awaitable[SmallBot]]
CHANNEL_IDS = {str(channel.name): str(channel.id) for channel in CHANNELS}
ART = CHANNEL_IDS["art"]
MESSAGES = f"/channels/{ART}/messages"
GUILD_COMMANDS = f"/applications/{BOT_ID}/guilds/{GUILD_ID}/commands"
GLOBAL_COMMANDS = f"/applications/{BOT_ID}/commands"
PAINT = {
    "name": "paint",
    "description": "Paint",
    "options": [{"type": 3, "name": "words", "description": "What"}],
}
DEADLINE = 10.0


class FakeClock:
    """Seconds since the epoch that pass when told to."""

    def __init__(self) -> None:
        self.now = 1_780_000_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A status, its headers and its JSON body."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def code(self) -> int:
        """Discord's error code."""
        return int(self.body["code"])

    def error(self, *path: str) -> str:
        """The code of the first mistake noted at `path` of an invalid form."""
        node = self.body["errors"]
        for key in path:
            node = node[key]
        return str(node["_errors"][0]["code"])


class Raw:
    """The bot's side of the connection, in plain aiohttp."""

    def __init__(self, sandbox: Sandbox, *, token: str = "Bot a-token") -> None:
        self._sandbox = sandbox
        self._token = token

    async def __aenter__(self) -> Self:
        self.session = aiohttp.ClientSession()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        files: Mapping[str, bytes] | None = None,
        token: str | None = None,
    ) -> Answer:
        """Send one request; with `files` (by name) as multipart."""
        headers = {"Authorization": self._token if token is None else token}
        data: Any = None
        if files is not None:
            data = aiohttp.FormData(quote_fields=False)
            data.add_field("payload_json", json.dumps(body or {}))
            for number, (name, content) in enumerate(files.items()):
                data.add_field(f"files[{number}]", content, filename=name)
        elif body is not None:
            headers["Content-Type"] = "application/json"
            data = body if isinstance(body, str) else json.dumps(body)
        url = f"{self._sandbox.api_url}{path}"
        async with self.session.request(method, url, data=data, headers=headers) as response:
            read = await response.json() if response.status != 204 else None
            return Answer(status=response.status, headers=response.headers, body=read)

    async def connect(self, query: str = "?v=10&encoding=json") -> Line:
        """Open a gateway connection and take HELLO."""
        line = Line(await self.session.ws_connect(self._sandbox.gateway_url + query))
        hello = await line.receive()
        assert hello["op"] == 10
        return line

    async def identify(self, **changes: Any) -> Line:
        """Open a gateway connection and log in."""
        line = await self.connect()
        await line.identify(**changes)
        return line


class Line:
    """One gateway connection."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.sequence = 0

    async def send(self, op: int, data: Any = None) -> None:
        await self.socket.send_json({"op": op, "d": data})

    async def identify(self, **changes: Any) -> None:
        properties = {"os": "linux", "browser": "test", "device": "test"}
        await self.send(2, {"token": "a-token", "intents": 513, "properties": properties, **changes})

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE):
            payload: dict[str, Any] = await self.socket.receive_json()
        self.sequence = payload["s"] or self.sequence
        return payload

    async def event(self, name: str) -> dict[str, Any]:
        """Wait for a dispatch of this type and return its data."""
        while True:
            payload = await self.receive()
            if payload["t"] == name:
                data: dict[str, Any] = payload["d"]
                return data

    async def close_code(self) -> int:
        """Read to the end and return the code with which the sandbox closed."""
        async with asyncio.timeout(DEADLINE):
            while (await self.socket.receive()).type is aiohttp.WSMsgType.TEXT:
                continue
        return self.socket.close_code or 0
