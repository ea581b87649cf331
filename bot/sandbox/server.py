"""The sandbox as one object: start it, connect the bot to its address, act as members, stop it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import operator
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from bot.sandbox.automod import keyword_rule, put_rule, remove_rule
from bot.sandbox.avatars import avatar
from bot.sandbox.community import BOT_TOKEN
from bot.sandbox.core import Core
from bot.sandbox.exchange import Observer
from bot.sandbox.gateway import Gateway
from bot.sandbox.logins import CLIENT_SECRET
from bot.sandbox.objects import channel_object, guild_create_object
from bot.sandbox.people import People, let_go, refuse_other_hosts, refuse_strangers
from bot.sandbox.permissions import Permission
from bot.sandbox.rest import PREFIX, Operation, Rest
from bot.sandbox.routes_about import About
from bot.sandbox.routes_automod import AutomodRoutes
from bot.sandbox.routes_channels import ChannelRoutes
from bot.sandbox.routes_commands import CommandRoutes
from bot.sandbox.routes_interactions import InteractionRoutes
from bot.sandbox.rules import Limits
from bot.sandbox.state import FORUM, GUILD_TEXT, PUBLIC_THREAD, Channel, Event, Role, number_of

TICK_SECONDS = 0.05
MAX_READ_BYTES = 256 * 1024 * 1024
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
# An uploaded file may be an HTML page: it must not run as a page of the sandbox.
HARMLESS = {"Content-Security-Policy": "sandbox", "X-Content-Type-Options": "nosniff"}
PAGE = Path(__file__).parent / "page"


class Sandbox:
    """A Discord on 127.0.0.1.

    `port` 0 takes a free port. `clock` returns seconds since the epoch; all deadlines use it. `observer` gets
    every exchange with the bot. `limits` are the limits on uploads. `shards` is the recommended number of
    shards. `token` is the only token that a bot can log in with, `client_secret` that of logins with Discord.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        clock: Callable[[], float] = time.time,
        observer: Observer | None = None,
        limits: Limits | None = None,
        shards: int = 1,
        token: str = BOT_TOKEN,
        client_secret: str = CLIENT_SECRET,
    ) -> None:
        self._port = port
        self._core = Core(
            clock, observer=observer, limits=limits, shards=shards, token=token, client_secret=client_secret
        )
        self._gateway = Gateway(self._core)
        self._people = People(self._core, self.misbehave)
        self._pages: dict[str, str] = {}
        self._runner: web.AppRunner | None = None
        self._timekeeper: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """The root address, "http://127.0.0.1:PORT", once started."""
        return self._core.world.address

    @property
    def api_url(self) -> str:
        """The address of the REST API."""
        return f"{self.address}{PREFIX}"

    @property
    def gateway_url(self) -> str:
        """The address of the gateway."""
        return f"{self.address.replace('http', 'ws', 1)}/gateway"

    @property
    def token(self) -> str:
        """The token that the bot logs in with."""
        return self._core.token

    @property
    def violations(self) -> list[str]:
        """The violations of Discord's rules by the bot, one sentence each."""
        return list(self._core.log.violations)

    @property
    def invalid_requests(self) -> int:
        """The number of requests answered with 401, 403 or 429; 10,000 in 10 min ban an address."""
        return self._core.invalid_requests

    @property
    def acknowledgement_seconds(self) -> list[float | None]:
        """The time of each interaction until its first response; None if there was none."""
        return self._core.interactions.acknowledgement_seconds()

    @property
    def connected(self) -> bool:
        """Whether a bot is logged in at the gateway."""
        return self._gateway.connected

    @property
    def shards(self) -> set[tuple[int, int]]:
        """The shards that are connected to the gateway, as (number, count)."""
        return self._gateway.shards

    async def start(self) -> str:
        """Listen on 127.0.0.1 and return the address."""
        app = web.Application(
            client_max_size=MAX_READ_BYTES,
            middlewares=[let_go, refuse_other_hosts, refuse_strangers],
        )
        self._add_routes(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        port = self._runner.addresses[0][1]
        self._core.world.address = f"http://127.0.0.1:{port}"
        self._timekeeper = asyncio.create_task(self._keep_time())
        return self.address

    async def stop(self) -> None:
        """Close every connection and stop listening."""
        if self._timekeeper is not None:
            self._timekeeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._timekeeper
        await self._people.stop()
        await self._gateway.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _keep_time(self) -> None:
        while True:
            self._core.interactions.check_deadlines()
            await asyncio.sleep(TICK_SECONDS)

    def _add_routes(self, app: web.Application) -> None:
        rest = Rest(self._core)
        operations: list[Operation] = []
        for part in (About, AutomodRoutes, CommandRoutes, InteractionRoutes, ChannelRoutes):
            operations += part(self._core).operations()
        for operation in operations:
            app.router.add_route(operation.method, PREFIX + operation.route, rest.handle(operation))
        app.router.add_routes(self._core.logins.routes(PREFIX))
        app.router.add_route("*", "/api/{rest:.*}", rest.not_found)
        app.router.add_get("/gateway", self._gateway.handle)
        app.router.add_get("/gateway/", self._gateway.handle)
        for folder in ("attachments", "ephemeral-attachments"):
            app.router.add_get(f"/{folder}/{{place_id}}/{{attachment_id}}/{{filename}}", self._attachment)
        app.router.add_get("/about/{name}", self._about)
        app.router.add_get("/avatars/{user_id}.svg", self._avatar)
        app.router.add_routes(self._people.routes())
        if PAGE.is_dir():
            app.router.add_get("/", self._page)
            app.router.add_static("/", PAGE)

    async def _page(self, _request: web.Request) -> web.FileResponse:
        return web.FileResponse(PAGE / "index.html")

    async def _about(self, request: web.Request) -> web.Response:
        page = self._pages.get(request.match_info["name"])
        if page is None:
            raise web.HTTPNotFound
        return web.Response(text=page, content_type="text/html")

    async def _attachment(self, request: web.Request) -> web.Response:
        world = self._core.world
        found = world.attachments.get(number_of(request.match_info["attachment_id"]))
        path, query = request.path, request.query
        if found is None or found.path != path or not world.links.is_good(path, query, world.clock()):
            return web.Response(status=404, text="This content is no longer available.")
        headers = {**FOREVER, **HARMLESS}
        return web.Response(body=found.data, content_type=found.content_type, headers=headers)

    async def _avatar(self, request: web.Request) -> web.Response:
        wanted = request.match_info["user_id"]
        for member in self._core.world.members.values():
            if str(member.user.id) == wanted:
                return web.Response(text=avatar(member.user), content_type="image/svg+xml", headers=FOREVER)
        raise web.HTTPNotFound

    def introduce(self, note: str, **pages: str) -> None:
        """Show every member `note`, in Markdown, and serve `pages`, in HTML, at /about/NAME."""
        self._core.world.note = note
        self._pages = pages

    def misbehave(self, **wanted: Any) -> None:
        """Inject faults.

        At once: `drop_gateway`, `reconnect` (opcode 7), `invalidate_session`, `expire_tokens`,
        `expire_attachments` (the present addresses of files), `no_session_starts` (for so many seconds the
        bot may not identify at the gateway). For future requests: the fields of `Faults`.
        """
        at_once = {
            "drop_gateway": self._gateway.drop,
            "reconnect": self._gateway.ask_to_reconnect,
            "invalidate_session": self._gateway.invalidate,
            "expire_tokens": self._core.interactions.expire_tokens,
            "expire_attachments": self._core.world.links.expire,
        }
        if "no_session_starts" in wanted:
            self._core.no_start_until = self._core.clock() + float(wanted.pop("no_session_starts"))
        later = {name: value for name, value in wanted.items() if name not in at_once}
        self._core.faults.set(later)
        if later.get("slow_ms"):
            self._core.interactions.excuse_all()
        for name, act in at_once.items():
            if wanted.get(name):
                self._core.interactions.excuse_all()
                act()

    def forbid(self, channel: str, *permissions: Permission) -> None:
        """Deny the bot permissions in a channel, by default all; its errors there are then no violations."""
        denied = Permission(0)
        for permission in permissions or (Permission.VIEW_CHANNEL,):
            denied |= permission
        self._core.forbidden.add(self._overwrite(channel, self._core.world.bot_id, (0, int(denied))).id)

    def shut_out(self, channel: str, member: str) -> None:
        """Hide a channel from the member of this username."""
        self._overwrite(channel, self._user_id(member), (0, int(Permission.VIEW_CHANNEL)))

    def forbid_commands(self, channel: str, member: str) -> None:
        """Deny the member of this username the commands of bots in a channel."""
        bits = (0, int(Permission.USE_APPLICATION_COMMANDS))
        self._overwrite(channel, self._user_id(member), bits)

    def appoint(self, channel: str, member: str) -> None:
        """Let the member of this username manage messages in this channel only."""
        self._overwrite(channel, self._user_id(member), (int(Permission.MANAGE_MESSAGES), 0))

    def employ(self, member: str, *permissions: Permission) -> None:
        """Give the member of this username these permissions in the server, and no role but everyone's."""
        world = self._core.world
        roles: tuple[int, ...] = ()
        if permissions:
            bits = functools.reduce(operator.or_, permissions)
            role = Role(id=world.new_id(), name=f"Work of {member}", permissions=int(bits), position=1)
            world.roles[role.id] = role
            roles = (role.id,)
        world.members[self._user_id(member)].roles = roles

    def silence(self, member: str, seconds: float) -> None:
        """Put the member of this username in a timeout."""
        until = self._core.clock() + seconds
        self._core.world.members[self._user_id(member)].silent_until = until

    def register(self, redirect_uri: str) -> None:
        """Let logins with Discord lead back to this address, as the developer portal does."""
        self._core.logins.redirect_uris.append(redirect_uri)

    def _overwrite(self, channel: str, user_id: int, bits: tuple[int, int]) -> Channel:
        place = next(each for each in self._core.world.channels.values() if each.name == channel)
        place.overwrites[user_id] = bits
        self._emit_channel("CHANNEL_UPDATE", place)
        return place

    def _user_id(self, username: str) -> int:
        members = self._core.world.members.values()
        return next(member.user.id for member in members if member.user.username == username)

    def delete_channel(self, channel: str) -> None:
        """Delete a channel with its messages."""
        world = self._core.world
        place = next(each for each in world.channels.values() if each.name == channel)
        for message in [*world.messages_in(place.id)]:
            del world.messages[message.id]
        del world.channels[place.id]
        self._emit_channel("CHANNEL_DELETE", place)

    def make_spoiler_channel(self, channel: str, *, spoiler: bool = True) -> None:
        """Make members open this channel before they see what is in it, or no longer.

        Raises ValueError as Discord refuses it: for threads, for direct messages, and for adults' channels.
        """
        place = next(each for each in self._core.world.channels.values() if each.name == channel)
        if place.type not in (GUILD_TEXT, FORUM) or (spoiler and place.nsfw):
            raise ValueError(f"{channel} cannot be a spoiler channel")
        place.spoiler = spoiler
        self._emit_channel("CHANNEL_UPDATE", place)

    def open_thread(self, channel: str, name: str) -> None:
        """Open a public thread of this name in a channel."""
        world = self._core.world
        parent = next(each for each in world.channels.values() if each.name == channel)
        thread = Channel(id=world.new_id(), name=name, type=PUBLIC_THREAD, parent_id=parent.id)
        world.channels[thread.id] = thread
        self._emit_channel("THREAD_CREATE", thread)

    def open_forum(self, name: str, *tags: str, tag_required: bool = False) -> int:
        """Add a forum with these tags, and return its id; with `tag_required` every post needs a tag."""
        world = self._core.world
        forum = Channel(id=world.new_id(), name=name, type=FORUM, tag_required=tag_required)
        forum.tags = {world.new_id(): tag for tag in tags}
        world.channels[forum.id] = forum
        self._emit_channel("CHANNEL_CREATE", forum)
        return forum.id

    def archive(self, thread: str, *, locked: bool = False) -> None:
        """Archive a thread; if it is locked, messages do not unarchive it."""
        place = next(each for each in self._core.world.channels.values() if each.name == thread)
        place.archived, place.locked = True, locked
        self._emit_channel("THREAD_UPDATE", place)

    def kick(self) -> None:
        """Remove the bot from the server, the only one that it shares with the members."""
        self._core.kicked = True
        world = self._core.world
        world.emit(Event(type="GUILD_DELETE", data={"id": str(world.guild_id)}))

    def set_automod_rule(self, name: str, **words: Any) -> None:
        """Add the AutoMod rule of this name, or change it; `words` are those of `keyword_rule`."""
        world = self._core.world
        known = next((each for each in world.automod_rules.values() if each["name"] == name), None)
        rule_id = int(known["id"]) if known else world.new_id()
        put_rule(world, keyword_rule(world, name, rule_id=rule_id, **words))

    def remove_automod_rule(self, name: str) -> None:
        """Remove the AutoMod rule of this name."""
        rules = self._core.world.automod_rules
        remove_rule(self._core.world, next(key for key, rule in rules.items() if rule["name"] == name))

    def silence_external_apps(self) -> None:
        """Make the answers of user-installed bots in the server ephemeral."""
        self._core.world.external_apps = False

    def invite(self) -> None:
        """Add the bot to the server again after `kick`."""
        self._core.kicked = False
        world = self._core.world
        world.emit(Event(type="GUILD_CREATE", data=guild_create_object(world)))

    def _emit_channel(self, event: str, channel: Channel) -> None:
        world = self._core.world
        world.emit(Event(type=event, data=channel_object(world, channel)))
