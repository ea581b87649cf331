"""Gateway sessions: each keeps its sent events, so that a lost connection can be resumed."""

from __future__ import annotations

import asyncio
import json
import secrets
import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from bot.sandbox.exchange import Frame, Observer
from bot.sandbox.rejections import Json

DISPATCH, HEARTBEAT, IDENTIFY, PRESENCE, VOICE_STATE, RESUME = 0, 1, 2, 3, 4, 6
RECONNECT, REQUEST_MEMBERS, INVALID_SESSION, HELLO, HEARTBEAT_ACK = 7, 8, 9, 10, 11
HISTORY = 1000


class Connection:
    """One WebSocket of the bot; frames are sent in the order of `send`."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport | None,
        *,
        compress: bool,
        observer: Observer,
    ) -> None:
        self._socket = socket
        self._transport = transport
        self._compressor = zlib.compressobj() if compress else None
        self._observer = observer
        self._queue: asyncio.Queue[Json | int] = asyncio.Queue()

    def send(self, frame: Json) -> None:
        """Queue one frame."""
        self._queue.put_nowait(frame)

    def close(self, code: int) -> None:
        """Close after all queued frames."""
        self._queue.put_nowait(code)

    def abort(self) -> None:
        """Cut the connection without a close frame."""
        if self._transport is not None:
            self._transport.abort()

    async def write(self) -> None:
        """Send queued frames until the connection closes."""
        while not self._socket.closed:
            frame = await self._queue.get()
            if isinstance(frame, int):
                await self._socket.close(code=frame)
                return
            self._observer(Frame(from_bot=False, op=frame["op"], event=frame["t"], payload=frame))
            await self._send(json.dumps(frame, ensure_ascii=False))

    async def _send(self, text: str) -> None:
        if self._compressor is None:
            await self._socket.send_str(text)
            return
        data = self._compressor.compress(text.encode()) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        await self._socket.send_bytes(data)


def frame(op: int, data: Any = None) -> Json:
    """Return a gateway payload that is no dispatch."""
    return {"op": op, "d": data, "s": None, "t": None}


@dataclass(kw_only=True)
class Session:
    """One session of the bot, connected or waiting to be resumed; `shard` is (number, count)."""

    intents: int
    shard: tuple[int, int]
    token: str
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    sequence: int = 0
    history: deque[Json] = field(default_factory=lambda: deque(maxlen=HISTORY))
    connection: Connection | None = None
    connected_at: float = 0.0

    def dispatch(self, event: str, data: Any) -> None:
        """Send an event, and keep it for a resume."""
        self.sequence += 1
        sent: Json = {"op": DISPATCH, "d": data, "s": self.sequence, "t": event}
        self.history.append(sent)
        if self.connection is not None:
            self.connection.send(sent)

    def can_resume(self, sequence: int) -> bool:
        """Whether all events after `sequence` are still kept."""
        oldest = self.history[0]["s"] if self.history else self.sequence + 1
        return 0 <= sequence <= self.sequence and sequence >= oldest - 1

    def resume(self, connection: Connection, sequence: int, now: float) -> None:
        """Continue on a new connection: send the missed events, then RESUMED."""
        missed = [sent for sent in self.history if sent["s"] > sequence]
        self.connection, self.connected_at = connection, now
        for sent in missed:
            connection.send(sent)
        self.dispatch("RESUMED", {"_trace": ["sandbox"]})

    def has_shard_of(self, guild_id: int | None) -> bool:
        """Whether events of this server (None: direct messages) belong to this shard."""
        number, count = self.shard
        return number == (0 if guild_id is None else (guild_id >> 22) % count)
