"""The endpoints under /sandbox for members: the page, the demo and the tests use them.

A member or a channel is given by id or name. The endpoints:
- a member in /sandbox/state has `avatar_url`, and `me` also `locale`, `permissions`,
  `moderator` and `installed`;
- GET /sandbox/messages has those of a channel, or the answers to an `interaction` alone;
- POST /sandbox/command is multipart if options take files: JSON in `payload_json`, a file in each
  `files[n]`, and n as the option's value; /sandbox/state has the `upload_limit` in bytes;
- POST /sandbox/modal is multipart in the same way; the values of an upload are a list of such numbers;
- POST /sandbox/autocomplete answers `{"choices": […], "error": sentence}`;
- POST /sandbox/menu {member, message, name} uses a message command;
- POST /sandbox/say {member, channel, content} posts a message, multipart with files;
- POST /sandbox/delete {member, message} deletes a message as a moderator, or dismisses an ephemeral one;
- POST /sandbox/react {member, message, emoji, on} adds a reaction, or removes it if `on` is false;
- POST /sandbox/dms {member, accepts} opens or closes a member's direct messages with the bot;
- POST /sandbox/install {member, installed} installs the bot in a member's account, or uninstalls it;
- an event's `data` is the message for MESSAGE_*, `{interaction_id, channel_id, message}` for
  INTERACTION_FAILED, the modal with `interaction_id` and `channel_id` for MODAL, `{channel_id, user_id}`
  for TYPING, the list of commands for COMMANDS_UPDATE and the channel for CHANNELS;
- every mistake is answered with 400 {"errors": [sentence, …]}; a page of another origin and a request for
  another host get 403 in the same form;
- MESSAGE_DELETE carries the whole message in its last state.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import hdrs, web
from yarl import URL

from bot.sandbox.actions import Actions, Refused
from bot.sandbox.automod import AUTOMOD_EVENTS
from bot.sandbox.core import Core
from bot.sandbox.objects import message_object
from bot.sandbox.rejections import Json
from bot.sandbox.state import Event, Member
from bot.sandbox.uploads import Body, Upload, read_multipart

OWN_HOSTS = ("127.0.0.1", "localhost")
CHANNELS = ("CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Posted = Callable[[Body], Awaitable[Any]]


@web.middleware
async def let_go(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Suppress the traceback of a request whose client has disconnected."""
    try:
        return await handler(request)
    except ConnectionResetError:
        return web.Response()  # the client is gone


@web.middleware
async def refuse_other_hosts(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 403 unless the request names this machine as its host.

    A page of another site can resolve its own name to 127.0.0.1 (DNS rebinding). A browser then treats the
    sandbox as that site, but still sends the site's name as the host.
    """
    host = _host_of(request)
    if host not in OWN_HOSTS:
        return _json({"errors": [f"The sandbox answers at {' and '.join(OWN_HOSTS)} only."]}, status=403)
    return await handler(request)


@web.middleware
async def refuse_strangers(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 403 to pages of other origins, which browsers name in the request; bots name none."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin and _authority_of(origin) != request.host:
        return _json({"errors": ["Only the sandbox's own page may do this."]}, status=403)
    return await handler(request)


def _authority_of(origin: str) -> str | None:
    try:
        return URL(origin).authority
    except ValueError:
        return None


def _host_of(request: web.Request) -> str | None:
    try:
        return URL(f"http://{request.headers.get(hdrs.HOST, '')}").host
    except ValueError:
        return None


class People:
    """Serves members over HTTP; each member gets only what the member may see."""

    def __init__(self, core: Core, misbehave: Callable[..., None]) -> None:
        self._core = core
        self._misbehave = misbehave
        self._actions = Actions(core)
        self._listeners: dict[asyncio.Queue[str | None], Member] = {}
        core.world.listeners.append(self._on_event)

    def routes(self) -> list[web.RouteDef]:
        """Return the endpoints for the application's router."""
        posts: dict[str, Callable[[Json], Awaitable[Any]]] = {
            "autocomplete": self._actions.autocomplete,
            "menu": self._actions.menu,
            "press": self._actions.press,
            "delete": self._actions.delete,
            "react": self._actions.react,
            "dms": self._actions.dms,
            "install": self._actions.install,
            "misbehave": self._set_misbehaviour,
        }
        return [
            web.get("/sandbox/state", self._state),
            web.get("/sandbox/messages", self._messages),
            web.get("/sandbox/events", self._events),
            web.get("/sandbox/log", self._log),
            web.post("/sandbox/command", _posted(_with_files(self._actions.command))),
            web.post("/sandbox/modal", _posted(_with_files(self._actions.modal))),
            web.post("/sandbox/say", _posted(_with_files(self._actions.say))),
            *(web.post(f"/sandbox/{name}", _posted(_without_files(act))) for name, act in posts.items()),
        ]

    async def stop(self) -> None:
        """End every event stream."""
        for queue in self._listeners:
            queue.put_nowait(None)

    async def _state(self, request: web.Request) -> web.Response:
        return _answered(lambda: self._actions.state(request.query.get("member", "")))

    async def _messages(self, request: web.Request) -> web.Response:
        query = request.query
        wanted = (query.get(name, "") for name in ("member", "channel", "interaction"))
        return _answered(lambda: self._actions.messages(*wanted))

    async def _log(self, _request: web.Request) -> web.Response:
        return _json(self._core.log.violations)

    async def _set_misbehaviour(self, body: Json) -> Json:
        try:
            self._misbehave(**body)
        except (TypeError, ValueError) as mistake:
            raise Refused([str(mistake)]) from None
        return {}

    async def _events(self, request: web.Request) -> web.StreamResponse:
        try:
            member = self._actions.member(request.query.get("member", ""))
        except Refused as refused:
            return _json({"errors": refused.sentences}, status=400)
        socket = web.WebSocketResponse(heartbeat=30)
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._listeners[queue] = member  # before the page is connected, which then fetches the state so far
        try:
            await socket.prepare(request)
            writer = asyncio.create_task(_write(socket, queue))
            try:
                async for _ in socket:  # members send nothing here; reading detects the disconnection
                    pass
            finally:
                writer.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await writer
        finally:
            del self._listeners[queue]
        return socket

    def _on_event(self, event: Event) -> None:
        if event.type == "INTERACTION_CREATE" or event.type in AUTOMOD_EVENTS:
            return
        for queue, member in self._listeners.items():
            data = self._seen_by(member, event)
            if data is not None:
                queue.put_nowait(json.dumps({"type": event.type, "data": data}, ensure_ascii=False))

    def _seen_by(self, member: Member, event: Event) -> Any:
        if event.member_id is not None:
            return event.data if event.member_id == member.user.id else None
        if event.message is not None:
            visible = self._actions.sees(member, event.message)
            if not visible:
                return None
            return message_object(self._core.world, event.message, viewer=member.user.id)
        if event.type in CHANNELS and not self._actions.may_view(member, int(event.data["id"])):
            return None
        if event.type == "COMMANDS_UPDATE":
            return self._actions.commands(member)
        return event.data


async def _write(socket: web.WebSocketResponse, queue: asyncio.Queue[str | None]) -> None:
    while not socket.closed:
        text = await queue.get()
        if text is None:
            await socket.close()
            return
        await socket.send_str(text)


def _with_files(action: Callable[[Json, Mapping[int, Upload]], Awaitable[Any]]) -> Posted:
    return lambda body: action(body.json, body.files)


def _without_files(action: Callable[[Json], Awaitable[Any]]) -> Posted:
    return lambda body: action(body.json)


async def _read(request: web.Request) -> Body:
    if request.content_type == "multipart/form-data":
        return await read_multipart(request, json.loads)
    return Body(json=await request.json(), files={})


def _posted(action: Posted) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        try:
            body = await _read(request)
            if not isinstance(body.json, dict):
                raise Refused(["The body must be a JSON object."])
            return _json(await action(body))
        except ValueError:
            return _json({"errors": ["The body must be JSON."]}, status=400)
        except Refused as refused:
            return _json({"errors": refused.sentences}, status=400)

    return handler


def _answered(action: Callable[[], Any]) -> web.Response:
    try:
        return _json(action())
    except Refused as refused:
        return _json({"errors": refused.sentences}, status=400)


def _json(body: Any, *, status: int = 200) -> web.Response:
    text = json.dumps(body, ensure_ascii=False)
    return web.Response(status=status, text=text, content_type="application/json")
