"""Discord's gateway, version 10, for bots."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from typing import Any

from aiohttp import WSMsgType, web

from bot.sandbox.automod import AUTOMOD_EVENTS, may_read_rules
from bot.sandbox.core import Core
from bot.sandbox.exchange import Frame
from bot.sandbox.objects import guild_create_object, member_object, message_event, own_user_object
from bot.sandbox.reactions import REACTION_EVENTS
from bot.sandbox.rejections import Json
from bot.sandbox.sessions import (
    HEARTBEAT,
    HEARTBEAT_ACK,
    HELLO,
    IDENTIFY,
    INVALID_SESSION,
    PRESENCE,
    RECONNECT,
    REQUEST_MEMBERS,
    RESUME,
    VOICE_STATE,
    Connection,
    Session,
    frame,
)
from bot.sandbox.state import DIRECT_MESSAGE, GROUP_DM, Event, Message, number_of

HEARTBEAT_MS = 41_250
MAX_PAYLOAD_BYTES = 4096
EVENTS_PER_MINUTE = 120
GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES = 1 << 0, 1 << 9, 1 << 12
GUILD_REACTIONS, DIRECT_REACTIONS = 1 << 10, 1 << 13
AUTOMOD_CONFIGURATION = 1 << 20
CHANNEL_EVENTS = frozenset(
    {
        "CHANNEL_CREATE",
        "CHANNEL_UPDATE",
        "CHANNEL_DELETE",
        "THREAD_CREATE",
        "THREAD_UPDATE",
        "GUILD_CREATE",
        "GUILD_DELETE",
    }
)
PRIVILEGED = 1 << 1 | 1 << 8 | 1 << 15
KNOWN_INTENTS = (1 << 26) - 1
UNKNOWN_OPCODE, DECODE_ERROR, NOT_AUTHENTICATED, WRONG_TOKEN, ALREADY = 4001, 4002, 4003, 4004, 4005
RATE_LIMITED, INVALID_SHARD, INVALID_VERSION, INVALID_INTENTS, DISALLOWED_INTENTS = (
    4008,
    4010,
    4012,
    4013,
    4014,
)


class Gateway:
    """Keeps the sessions and serves the connections."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._sessions: dict[str, Session] = {}
        self._connections: set[Connection] = set()
        core.bot_present_since = self._present_since
        core.world.listeners.append(self._on_event)

    @property
    def connected(self) -> bool:
        """Whether a bot is logged in now."""
        return bool(self.shards)

    @property
    def shards(self) -> set[tuple[int, int]]:
        """The shards that are connected now, as (number, count)."""
        return {session.shard for session in self._sessions.values() if session.connection is not None}

    def _present_since(self, at: float) -> bool:
        """Whether the bot has been connected for the server and for direct messages since the time `at`."""
        there = [
            session
            for session in self._sessions.values()
            if session.connection is not None and session.connected_at <= at
        ]
        places = (self._core.world.guild_id, None)
        return all(any(session.has_shard_of(place) for session in there) for place in places)

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one connection from HELLO to its end."""
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        compress = request.query.get("compress") == "zlib-stream"
        transport = request.transport
        connection = Connection(socket, transport, compress=compress, observer=self._core.observer)
        self._connections.add(connection)
        writer = asyncio.create_task(connection.write())
        try:
            if request.query.get("v") != "10" or request.query.get("encoding") != "json":
                self._refuse(connection, INVALID_VERSION, "the version must be 10 and the encoding json")
            connection.send(frame(HELLO, {"heartbeat_interval": HEARTBEAT_MS}))
            await self._converse(socket, connection)
        finally:
            self._connections.discard(connection)
            self._core.rates.forget_refusals()  # the process may be dead, and its successor knows none
            for session in self._sessions.values():
                if session.connection is connection:
                    session.connection = None
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await writer
        return socket

    async def _converse(self, socket: web.WebSocketResponse, connection: Connection) -> None:
        session: Session | None = None
        received: deque[float] = deque()
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            now = self._core.clock()
            received.append(now)
            while received[0] <= now - 60:
                received.popleft()
            if len(received) > EVENTS_PER_MINUTE:
                self._refuse(connection, RATE_LIMITED, f"over {EVENTS_PER_MINUTE} events in 60 s")
                continue
            payload = self._parse(connection, message.data)
            if payload is not None:
                session = self._obey(connection, session, payload)

    def _parse(self, connection: Connection, text: str) -> Json | None:
        try:
            payload = json.loads(text)
        except ValueError:
            payload = None
        if not isinstance(payload, dict) or len(text.encode()) > MAX_PAYLOAD_BYTES:
            self._refuse(connection, DECODE_ERROR, f"no JSON object of at most {MAX_PAYLOAD_BYTES} bytes")
            return None
        self._core.observer(Frame(from_bot=True, op=payload.get("op", -1), event=None, payload=payload))
        return payload

    def _refuse(self, connection: Connection, code: int, why: str, *, violation: bool = True) -> None:
        if violation:
            self._core.log.violation(f"gateway closed with {code}: {why}")
        connection.close(code)

    def _obey(self, connection: Connection, session: Session | None, payload: Json) -> Session | None:
        op, data = payload.get("op"), payload.get("d")
        if op == HEARTBEAT:
            connection.send(frame(HEARTBEAT_ACK))
        elif op in (IDENTIFY, RESUME):
            if session is not None:
                self._refuse(connection, ALREADY, "identified twice")
                return session
            begin = self._identify if op == IDENTIFY else self._resume
            return begin(connection, data if isinstance(data, dict) else {})
        elif session is None:
            self._refuse(connection, NOT_AUTHENTICATED, f"opcode {op} before IDENTIFY")
        elif op == REQUEST_MEMBERS:
            self._send_members(session, data if isinstance(data, dict) else {})
        elif op not in (PRESENCE, VOICE_STATE):
            self._refuse(connection, UNKNOWN_OPCODE, f"unknown opcode {op}")
        return session

    def _identify(self, connection: Connection, data: Json) -> Session | None:
        if not self._core.is_good_token(str(data.get("token") or "")):
            self._refuse(connection, WRONG_TOKEN, "wrong token", violation=False)
            return None
        intents, shard = data.get("intents"), data.get("shard", [0, 1])
        if not isinstance(intents, int) or not 0 <= intents <= KNOWN_INTENTS:
            self._refuse(connection, INVALID_INTENTS, f"intents {intents}")
            return None
        if self._core.faults.take("refuse_intents", "/gateway"):
            self._refuse(connection, DISALLOWED_INTENTS, "intents, as was asked", violation=False)
            return None
        if intents & PRIVILEGED:
            self._refuse(connection, DISALLOWED_INTENTS, "privileged intents, which this application has not")
            return None
        if not self._core.session_starts_left:
            self._refuse(connection, WRONG_TOKEN, "identified although no session start is left")
            return None
        if not _is_shard(shard):
            self._refuse(connection, INVALID_SHARD, f"shard {shard}")
            return None
        session = Session(intents=intents, shard=(shard[0], shard[1]), token=data["token"])
        self._forget_abandoned(session.shard)
        session.connection, session.connected_at = connection, self._core.clock()
        self._sessions[session.id] = session
        self._core.session_starts += 1
        self._greet(session)
        return session

    def _forget_abandoned(self, shard: tuple[int, int]) -> None:
        """Forget the disconnected sessions of a shard that logs in again: it will not resume them."""
        for known in [*self._sessions.values()]:
            if known.connection is None and known.shard == shard:
                del self._sessions[known.id]

    def _greet(self, session: Session) -> None:
        world = self._core.world
        has_guild = session.has_shard_of(world.guild_id)
        session.dispatch(
            "READY",
            {
                "v": 10,
                "user": own_user_object(world.user(world.bot_id)),
                "guilds": [{"id": str(world.guild_id), "unavailable": True}] if has_guild else [],
                "session_id": session.id,
                "session_type": "normal",
                "resume_gateway_url": f"{world.address.replace('http', 'ws', 1)}/gateway",
                "shard": list(session.shard),
                "application": {"id": str(world.application_id), "flags": 0, "flags_new": "0"},
                "private_channels": [],
                "relationships": [],
                "user_settings": {},
                "_trace": ["sandbox"],
            },
        )
        if has_guild and session.intents & GUILDS:
            session.dispatch("GUILD_CREATE", guild_create_object(world))

    def _resume(self, connection: Connection, data: Json) -> Session | None:
        if not self._core.is_good_token(str(data.get("token") or "")):
            self._refuse(connection, WRONG_TOKEN, "wrong token", violation=False)
            return None
        session = self._sessions.get(str(data.get("session_id")))
        sequence = data.get("seq")
        if session is None or not isinstance(sequence, int) or not session.can_resume(sequence):
            connection.send(frame(INVALID_SESSION, data=False))
            return None
        session.resume(connection, sequence, self._core.clock())
        return session

    def _send_members(self, session: Session, data: Json) -> None:
        world = self._core.world
        wanted = [str(user) for user in _as_list(data.get("user_ids"))]
        query = data.get("query")
        found = [
            member
            for member in world.members.values()
            if str(member.user.id) in wanted
            or (query is not None and member.user.username.startswith(str(query).lower()))
        ]
        chunk: Json = {
            "guild_id": str(world.guild_id),
            "members": [member_object(world, member) for member in found],
            "chunk_index": 0,
            "chunk_count": 1,
            "not_found": [user for user in wanted if number_of(user) not in world.members],
        }
        session.dispatch("GUILD_MEMBERS_CHUNK", chunk | ({"nonce": data["nonce"]} if "nonce" in data else {}))

    def _on_event(self, event: Event) -> None:
        for session in self._sessions.values():
            if event.type == "INTERACTION_CREATE":
                self._dispatch_at(session, event, event.data.get("guild_id"))
            elif event.type in CHANNEL_EVENTS and session.intents & GUILDS:
                self._dispatch_at(session, event, self._core.world.guild_id)
            elif event.type in AUTOMOD_EVENTS and session.intents & AUTOMOD_CONFIGURATION:
                if may_read_rules(self._core.world):  # Discord sends these events to no other bot
                    self._dispatch_at(session, event, self._core.world.guild_id)
            elif event.type in REACTION_EVENTS:
                guild = event.data.get("guild_id")
                if session.intents & (GUILD_REACTIONS if guild else DIRECT_REACTIONS):
                    self._dispatch_at(session, event, guild)
            elif event.message is not None and event.message.visible_to is None:
                self._tell_of_message(session, event.type, event.message)

    @staticmethod
    def _dispatch_at(session: Session, event: Event, guild: str | int | None) -> None:
        """Dispatch an event of a server, or of direct messages, if the session has its shard."""
        if session.has_shard_of(int(guild) if guild else None):
            session.dispatch(event.type, event.data)

    def _tell_of_message(self, session: Session, event: str, message: Message) -> None:
        world = self._core.world
        channel = world.channels.get(message.channel_id)
        if channel is None or channel.type == GROUP_DM:
            return
        direct = channel.type == DIRECT_MESSAGE
        guild_id = None if direct else world.guild_id
        intent = DIRECT_MESSAGES if direct else GUILD_MESSAGES
        if not (session.intents & intent and session.has_shard_of(guild_id)):
            return
        if event == "MESSAGE_DELETE":
            gone = {"id": str(message.id), "channel_id": str(channel.id)}
            session.dispatch(event, gone if direct else {**gone, "guild_id": str(guild_id)})
        else:
            session.dispatch(event, message_event(world, message))

    def drop(self) -> None:
        """Cut every connection; the sessions can be resumed."""
        for connection in [*self._connections]:
            connection.abort()

    def ask_to_reconnect(self) -> None:
        """Send RECONNECT on every connection, as Discord does before it restarts a node."""
        for connection in self._connections:
            connection.send(frame(RECONNECT))

    def invalidate(self) -> None:
        """Send INVALID_SESSION, not resumable, on every connection, and forget every session."""
        self._sessions.clear()
        for connection in self._connections:
            connection.send(frame(INVALID_SESSION, data=False))

    async def stop(self) -> None:
        """Close every connection."""
        for connection in [*self._connections]:
            connection.close(1001)


def _is_shard(value: Any) -> bool:
    """Whether this is [shard number, number of shards] as whole numbers."""
    pair = isinstance(value, list) and len(value) == 2 and all(type(each) is int for each in value)
    return pair and 0 <= value[0] < value[1]


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
