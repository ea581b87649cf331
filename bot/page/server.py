"""Serves the operators' page."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from yarl import URL

from bot.domain.errors import DiscordUnavailable, StoreUnavailable, UserMistake
from bot.domain.jobs import Origin
from bot.page import audit, operations, queue, rules, settings, wall, well
from bot.page.decisions import Decisions
from bot.page.discord_login import BACK, DiscordLogin, LoginFailed
from bot.page.entrance import Entrance
from bot.page.guard import HEADERS, SAFE, Guard, back, form_of, number_of
from bot.page.house import House
from bot.page.members import Viewers
from bot.page.pictures import ARCHIVE_SECONDS, SAID, Pictures, read_gallery, said
from bot.page.renderer import Renderer, View, event_of, language_of
from bot.page.rights import MINE, PINNED, Right, Role, Viewer
from bot.store.rows.audit import EVERYWHERE, By
from bot.texts.catalogue import LANGUAGES
from bot.web.connections import Connections
from bot.web.server import listening

log = logging.getLogger(__name__)

MOST_BODY = 65_536  # bytes of a form: a rule has up to 500 words
STREAM_SECONDS = 300.0
MOST_STREAMS, MOST_OF_ONE = 50, 20  # of everybody, and of one person who is not an operator
TICK_SECONDS = 1.0
LOGIN_TICKS = 5  # between two looks at whether its person is still logged in
STREAM = "text/event-stream"
RETRY_LATE = b"retry: 60000\n"  # milliseconds
LANGUAGE_COOKIE, SERVER_COOKIE = "language", "server"
SCRIPTS = ("keys.js", "htmx.min.js", "hx-sse.min.js")
STATIC = MappingProxyType({"page.css": "text/css", **dict.fromkeys(SCRIPTS, "text/javascript")})
OF_REVIEWS = ("server", "viewer", "owns")
OF_QUEUE = ("person", "server", "model", "state", "public")
OF_JOB = ("job", "person", "server", "role", "here", "public")
OF_GALLERY = (*SAID, "role", "viewer", "public", "channels")
OF_AUDIT = ("server", "person", "act", "before")
OF_FAILURES = ("period", "ask", "role")
GALLERY = View(name="gallery", read=read_gallery, right=Right.GALLERY, keys=OF_GALLERY, fresh_seconds=10.0)
VIEWS = (
    View(name="well", read=well.read, right=Right.OPERATIONS),
    View(name="queue", read=queue.read, right=Right.QUEUE, keys=OF_QUEUE),
    GALLERY,
    View(name="wall", read=wall.read, right=Right.REVIEW, keys=(*OF_REVIEWS, "last", "trouble")),
    View(name="rules", read=rules.read, right=Right.REVIEW, keys=(*OF_REVIEWS, "name", "saved")),
    View(name="blocked", read=rules.read_blocked, right=Right.REVIEW, keys=OF_REVIEWS, fresh_seconds=5.0),
    View(name="workers", read=operations.read_workers, right=Right.OPERATIONS, keys=("role",)),
    View(
        name="failures",
        read=operations.read_failures,
        right=Right.OPERATIONS,
        keys=OF_FAILURES,
        fresh_seconds=10.0,
    ),
    View(name="deliveries", read=operations.read_deliveries, right=Right.OPERATIONS, keys=("kind",)),
    View(name="audit", read=audit.read, right=Right.AUDIT, keys=OF_AUDIT, fresh_seconds=5.0),
    View(name="policies", read=settings.read_policies, right=Right.POLICIES, keys=("server",)),
    View(name="configuration", read=settings.read_configuration, right=Right.OPERATE, fresh_seconds=60.0),
    View(name="usage", read=operations.read_usage, right=Right.OPERATIONS, fresh_seconds=60.0),
)
JOB_ID = "{job:[A-Za-z0-9_-]{1,16}}"
"""Others find nothing here: PostgreSQL refuses some characters as if it were out of order."""
JOB = View(name="job", read=queue.read_job, right=Right.QUEUE, keys=OF_JOB)
OF_CASE = ("review", *OF_REVIEWS, "last", "trouble")
CASE = View(name="case", read=wall.read_case, right=Right.REVIEW, keys=OF_CASE)
STRIP = View(name="strip", read=wall.read_strip, right=Right.REVIEW, keys=("review", *OF_REVIEWS))
REVIEW_ID = "{review:[0-9]{1,18}}"

Answer = Callable[[web.Request, Viewer], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, kw_only=True)
class Route:
    """A method and a path, the right that they need, and what answers."""

    method: str = "GET"
    path: str
    right: Right
    answer: Answer


def _change(path: str, right: Right, answer: Answer) -> Route:
    return Route(method="POST", path=path, right=right, answer=answer)


@asynccontextmanager
async def serving(house: House) -> AsyncIterator[None]:
    """Serve the page inside the block, not at all for port 0; raises ConfigurationError for its address."""
    config = house.config
    if not config.port:
        yield
        return
    connections = Connections(most=2 * MOST_STREAMS)
    app = application(house, connections)
    async with listening(app, connections, config.host, config.port, section="page"):
        log.info(
            "the operators' page is at %s; `sdjax-bot page-link` prints a link that opens it", config.url
        )
        yield


def application(house: House, connections: Connections) -> web.Application:
    """Return the page as an application of aiohttp, with all its checks."""
    guard = Guard(house.config, connections)
    pages = _Pages(house, guard, connections)
    app = web.Application(middlewares=[guard.admit, pages.inside], client_max_size=MOST_BODY)
    app.add_routes(pages.open_routes())
    app.add_routes([web.route(each.method, each.path, pages.guarded(each)) for each in pages.routes()])
    return app


class _Pages:
    def __init__(self, house: House, guard: Guard, connections: Connections) -> None:
        self._house = house
        self._entrance = Entrance(house.store.logins, guard)
        self._viewers = Viewers(house.config, house.members)
        self._login = None if house.discord is None else DiscordLogin(house.discord, guard, house.config.url)
        self._pictures = Pictures(house)
        self._decisions = Decisions(house, self._pictures)
        self._rules = rules.Rules(house)
        self._renderer = Renderer(house)
        self._connections = connections
        self._streams = Counter[int]()  # of each person

    def open_routes(self) -> list[web.RouteDef]:
        """Return the routes of everybody; somebody without any role may leave too."""
        return [
            web.get("/static/{name}", _static),
            web.get("/enter", self._entrance_page),
            web.post("/enter", self._enter),
            web.get("/discord", self._begin_login),
            web.get(BACK, self._end_login),
            web.post("/language", _choose_language),
            web.post("/leave", self._leave),
        ]

    def routes(self) -> list[Route]:
        """Return the routes of those who are logged in."""
        in_, right, operate, changes = Right.LOGGED_IN, Right.GALLERY, Right.OPERATE, self._house.store.queue
        compared, star = self._of_gallery(self._pictures.compared), self._of_gallery(self._pictures.star)
        found = [
            Route(path=f"/pictures/{JOB_ID}/{{index}}", right=right, answer=self._pictures.answer),
            Route(path="/gallery/compare", right=right, answer=compared),
            Route(path="/gallery/archive", right=right, answer=self._of_gallery(self._archive)),
            Route(path="/servers", right=in_, answer=self._servers),
            _change(f"/gallery/{JOB_ID}/star", right, star),
            _change("/server", in_, _choose_server),
            _change(f"/jobs/{JOB_ID}/cancel", Right.CANCEL, self._cancel),
            _change(f"/jobs/{JOB_ID}/pause", Right.ORDER, self._ordering(changes.pause)),
            _change(f"/jobs/{JOB_ID}/resume", Right.ORDER, self._ordering(changes.resume)),
            _change(f"/jobs/{JOB_ID}/advance", Right.ORDER, self._ordering(changes.advance)),
            _change(f"/jobs/{JOB_ID}/retry", operate, self._retry),
            _change("/workers/drain", operate, self._drain),
            _change("/failures/retry", operate, self._retry_cause),
            _change("/deliveries/{message}/send", operate, self._send_now),
        ]
        for path, view, live in (
            *((_path(view), view, view) for view in VIEWS),
            (f"/jobs/{JOB_ID}", JOB, JOB),
            (f"/wall/{REVIEW_ID}", CASE, STRIP),  # a whole case would change under the moderator's hands
        ):
            found.append(Route(path=path, right=view.right, answer=self._page_of(view)))
            found.append(Route(path=f"/live{path}", right=view.right, answer=self._stream_of(live)))
        return found + self._routes_of_wall()

    def _routes_of_wall(self) -> list[Route]:
        decisions, right, case = self._decisions, Right.REVIEW, f"/wall/{REVIEW_ID}"
        return [
            _change("/rules", right, self._rule),
            _change("/rules/try", right, self._rule),
            _change("/rules/remove", right, self._remove_rule),
            Route(path="/blocked/{name}", right=right, answer=self._blocked_picture),
            _change("/blocked/{name}/remove", right, self._unblock),
            Route(path=f"{case}/pictures/{{index}}", right=right, answer=decisions.picture),
            _change("/wall/next", right, decisions.next),
            _change(f"{case}/claim", right, decisions.act(decisions.claim)),
            _change(f"{case}/decide", right, decisions.act(decisions.decide)),
            _change(f"{case}/undo", right, decisions.act(decisions.undo)),
            _change(f"{case}/block", right, decisions.act(decisions.block)),
        ]

    def guarded(self, route: Route) -> Handler:
        """Return the handler of a route, which answers those who have its right."""

        async def handler(request: web.Request) -> web.StreamResponse:
            viewer = await self._viewer(request)
            if viewer.reach(route.right) is None:
                if request.path == "/":  # the front door leads everybody in
                    return back(next(_path(view) for view in VIEWS if viewer.reach(view.right)))
                raise web.HTTPForbidden
            try:
                return await route.answer(request, viewer)
            finally:
                if route.method not in SAFE:  # the browser sees what follows as it is now
                    self._renderer.forget_all()

        return handler

    @web.middleware
    async def inside(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer; strangers see how to log in, and outages are told on the page."""
        try:
            if request.match_info.http_exception is not None:  # there is no such route
                await self._viewer(request)
            return await handler(request)
        except StoreUnavailable as error:
            words = str(error) if self._entrance.knows(request) else ""  # it names the database's address
            return self._plain(request, "trouble.html", status=503, trouble="store", words=words)
        except DiscordUnavailable:
            return self._plain(request, "trouble.html", status=503, trouble="discord", words="")
        except (web.HTTPUnauthorized, web.HTTPForbidden) as refused:
            if STREAM in request.headers.get(hdrs.ACCEPT, ""):  # of a page that is still open: it is emptied
                gone = event_of(self._renderer.render("gone.html", _language(request)))
                return web.Response(body=RETRY_LATE + gone, content_type=STREAM)
            if refused.status == web.HTTPUnauthorized.status_code:
                return self._entrance_of(request, status=401)
            return self._plain(request, "trouble.html", status=403, trouble="forbidden", words="")
        except (web.HTTPNotFound, UserMistake):  # of a text that cannot be stored
            return self._plain(request, "trouble.html", status=404, trouble="nothing", words="")

    async def _viewer(self, request: web.Request) -> Viewer:
        """Return who asks; raises HTTPUnauthorized for strangers, HTTPForbidden for a person without a role.

        Raises DiscordUnavailable and StoreUnavailable.
        """
        login = await self._entrance.who(request)
        if login is None:
            raise web.HTTPUnauthorized
        kept = request.cookies.get(SERVER_COOKIE, "")
        viewer = await self._viewers.of(login.user_id, request.query, kept)
        if viewer is None:
            raise web.HTTPForbidden
        return viewer

    def _page_of(self, view: View) -> Answer:
        async def page(request: web.Request, viewer: Viewer) -> web.StreamResponse:
            language = _language(request)
            middle = (await self._renderer.fragment(view, _asked(view, request, viewer), language)).html
            live = f"/live{request.path_qs}"
            return self._plain(request, "page.html", viewer=viewer, view=view.name, middle=middle, live=live)

        return page

    def _stream_of(self, view: View) -> Answer:
        async def stream(request: web.Request, viewer: Viewer) -> web.StreamResponse:
            theirs = 0 if viewer.role is Role.OPERATOR else self._streams[viewer.user_id]
            if self._streams.total() >= MOST_STREAMS or theirs >= MOST_OF_ONE:
                raise web.HTTPServiceUnavailable(headers={"Retry-After": "10"})
            self._streams[viewer.user_id] += 1
            try:
                return await self._stream(view, request, viewer)
            finally:
                self._streams -= Counter([viewer.user_id])  # `-=` also drops a person without a stream

        return stream

    async def _stream(self, view: View, request: web.Request, viewer: Viewer) -> web.StreamResponse:
        """Send the middle of the page, and again whenever it changes, while its person may see it."""
        self._connections.extend(request.transport, STREAM_SECONDS + TICK_SECONDS)
        language, query = _language(request), _asked(view, request, viewer)
        event, sent = (await self._renderer.fragment(view, query, language)).event, b""
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": STREAM})
        answer.force_close()
        turn = self._streams.total() % LOGIN_TICKS  # not all at once, which would need a connection each
        with suppress(StoreUnavailable, DiscordUnavailable, web.HTTPNotFound, ConnectionError):
            await answer.prepare(request)
            for tick in range(int(STREAM_SECONDS / TICK_SECONDS)):
                if event != sent:  # at first too: what the browser shows may be of long ago
                    await answer.write(event)
                    sent = event
                if not query:
                    break
                # All streams look at the same moment, so that each view is made once for all of them.
                await asyncio.sleep(TICK_SECONDS - time.monotonic() % TICK_SECONDS)
                if request.transport is None:  # aiohttp ends no handler whose browser is gone
                    break
                if tick % LOGIN_TICKS == turn:
                    query = await self._asked_still(view, request)
                if query:
                    event = (await self._renderer.fragment(view, query, language)).event
                else:
                    event = event_of(self._renderer.render("gone.html", language))
        return answer

    async def _entrance_page(self, request: web.Request) -> web.Response:
        return self._entrance_of(request, link=request.query.get("link", ""))

    def _entrance_of(
        self, request: web.Request, *, status: int = 200, link: str = "", trouble: str = "", name: str = ""
    ) -> web.Response:
        facts: dict[str, Any] = {"link": link, "trouble": trouble, "name": name}
        return self._plain(request, "entrance.html", status=status, discord=self._login is not None, **facts)

    async def _enter(self, request: web.Request) -> web.Response:
        answer = await self._entrance.enter(request, str((await form_of(request)).get("link", "")))
        return answer or self._entrance_of(request, status=401, trouble="link")

    async def _begin_login(self, request: web.Request) -> web.Response:
        if self._login is None:
            raise web.HTTPNotFound
        if not self._entrance.may_try():
            raise web.HTTPTooManyRequests(headers={"Retry-After": "2"})
        return await self._login.begin(request)

    async def _end_login(self, request: web.Request) -> web.Response:
        if self._login is None:
            raise web.HTTPNotFound
        try:
            account = await self._login.end(request)
            if await self._viewers.of(account.id, {}, "") is None:
                raise LoginFailed("nobody")
            # Not a redirect: the browser sends a strict cookie with no request that began at Discord.
            answer = self._entrance_of(request, name=account.name)
            await self._entrance.open(request, answer, account.id)
        except LoginFailed as failed:
            answer = self._entrance_of(request, status=401, trouble=failed.trouble)
        self._login.forget(request, answer)
        return answer

    async def _leave(self, request: web.Request) -> web.Response:
        everywhere = (await form_of(request)).get("everywhere") == "yes"
        return await self._entrance.leave(request, everywhere=everywhere)

    async def _servers(self, request: web.Request, viewer: Viewer) -> web.Response:
        servers = await self._viewers.servers(viewer.user_id)
        return self._plain(request, "servers.html", viewer=viewer, servers=servers, view="servers")

    async def _reached(self, request: web.Request, viewer: Viewer, right: Right) -> Origin:
        """Return where the request of an address comes from.

        Raises UnknownJob and UnreadableJob, and HTTPNotFound beyond the viewer's right.
        """
        origin = (await self._house.store.jobs.get(request.match_info["job"])).origin
        if not viewer.may(right, guild_id=origin.guild_id, user_id=origin.user_id):
            raise web.HTTPNotFound
        return origin

    async def _cancel(self, request: web.Request, viewer: Viewer) -> web.Response:
        job_id, origin = request.match_info["job"], await self._reached(request, viewer, Right.CANCEL)
        own = origin.user_id == viewer.user_id
        by = None if own else viewer.by(origin.guild_id or 0)
        await self._house.store.jobs.cancel(job_id, user_id=viewer.user_id if own else None, by=by)
        return back(f"/jobs/{job_id}" + (f"?whose={MINE}" if own else ""))

    def _ordering(self, verb: Callable[[str, By], Awaitable[None]]) -> Answer:
        """Return what answers a change of the order of the queue."""

        async def order(request: web.Request, viewer: Viewer) -> web.StreamResponse:
            job_id, origin = request.match_info["job"], await self._reached(request, viewer, Right.ORDER)
            await verb(job_id, viewer.by(origin.guild_id or 0))
            return back(f"/jobs/{job_id}")

        return order

    def _of_gallery(self, act: Callable[[web.Request, Viewer], Awaitable[Any]]) -> Answer:
        """Return what answers a form of the gallery: an answer of its own, or facts for a page."""

        async def answer(request: web.Request, viewer: Viewer) -> web.StreamResponse:
            try:
                found = await act(request, viewer)
            except UserMistake as mistake:
                found = {"pair": (), "mistake": mistake, "said": said(request.query)}
            if isinstance(found, web.StreamResponse):
                return found
            middle = self._renderer.render("gallery.html", _language(request), **found)
            return self._plain(request, "page.html", viewer=viewer, view="gallery", middle=middle, live="")

        return answer

    async def _archive(self, request: web.Request, viewer: Viewer) -> web.StreamResponse:
        self._connections.extend(request.transport, ARCHIVE_SECONDS)
        query, again = _asked(GALLERY, request, viewer), functools.partial(self._viewer, request)
        return await self._pictures.archive(request, query, again)

    async def _drain(self, request: web.Request, viewer: Viewer) -> web.Response:
        form, by = await form_of(request), viewer.by(EVERYWHERE)
        drained = form.get("drained") == "yes"
        await self._house.store.workers.drain(str(form.get("worker", "")), by, drained=drained)
        return back("/workers")

    async def _retry(self, request: web.Request, viewer: Viewer) -> web.Response:
        job_id = request.match_info["job"]
        await self._house.store.failures.retry(job_id, viewer.user_id)
        return back(f"/jobs/{job_id}")

    async def _retry_cause(self, request: web.Request, viewer: Viewer) -> web.Response:
        form = await form_of(request)
        await operations.retry(self._house, form, viewer.user_id)
        return back(f"/failures?{urlencode({'period': str(form.get('period', ''))})}")

    async def _send_now(self, request: web.Request, _viewer: Viewer) -> web.Response:
        number = number_of(request.match_info["message"])
        if not number or not await self._house.store.messages.send_now(number):
            raise web.HTTPNotFound
        return back("/deliveries")

    async def _rule(self, request: web.Request, viewer: Viewer) -> web.Response:
        """Store a rule, or try it; a form that has a mistake is shown again with the mistake."""
        form, guild_id = await rules.form_fields(request), await self._server(request, viewer)
        facts: dict[str, object] = {"form": form}
        try:
            if request.path == "/rules":
                rule = await self._rules.put(form, viewer.by(guild_id))
                place = {"server": str(guild_id)} if viewer.guild_id is None else {}
                return back(str(URL("/rules").with_query({"saved": rule.name, **place})))
            facts["trial"] = await self._rules.trial(form, guild_id)
        except UserMistake as mistake:
            facts["mistake"] = mistake
        shown = await rules.read(self._house, {"server": str(guild_id)})
        middle = self._renderer.render("rules.html", _language(request), **{**shown, **facts})
        return self._plain(request, "page.html", viewer=viewer, view="rules", middle=middle, live="")

    async def _remove_rule(self, request: web.Request, viewer: Viewer) -> web.Response:
        guild_id = await self._server(request, viewer)
        name = (await rules.form_fields(request))["name"]
        if await self._house.store.prompt_rules.remove(name, viewer.by(guild_id)) is None:
            raise web.HTTPNotFound
        return back("/rules" if viewer.guild_id else f"/rules?server={guild_id}")

    async def _blocked_picture(self, request: web.Request, viewer: Viewer) -> web.Response:
        guild_id = await self._server(request, viewer)
        name = await rules.file_of(self._house, guild_id, request.match_info["name"])
        return await self._pictures.file(request, name)

    async def _unblock(self, request: web.Request, viewer: Viewer) -> web.Response:
        guild_id = await self._server(request, viewer)
        if not await rules.unblock(self._house, request.match_info["name"], viewer.by(guild_id)):
            raise web.HTTPNotFound
        return back("/blocked" if viewer.guild_id else f"/blocked?server={guild_id}")

    async def _server(self, request: web.Request, viewer: Viewer) -> int:
        """Return the server that a form of moderators is about; raises HTTPNotFound without one."""
        guild_id = viewer.guild_id or await wall.server_of(self._house, request.query)
        if not guild_id:
            raise web.HTTPNotFound
        return guild_id

    def _plain(
        self,
        request: web.Request,
        template: str,
        *,
        status: int = 200,
        viewer: Viewer | None = None,
        **facts: object,
    ) -> web.Response:
        language = _language(request)
        views = [view.name for view in VIEWS if viewer is not None and viewer.reach(view.right)]
        path = request.path_qs
        if request.method not in SAFE:  # a form's address cannot be looked at: its view can
            name = request.path.split("/")[1]
            path = f"/{name}?{request.query_string}" if name in views else "/"
        shared = {"views": views, "viewer": viewer, "path": path}
        html = self._renderer.render(template, language, **shared, **facts)
        return web.Response(text=html, status=status, content_type="text/html")

    async def _asked_still(self, view: View, request: web.Request) -> dict[str, str]:
        """Return what a stream shows to its person now; nothing where the person may see it no longer."""
        try:
            viewer = await self._viewer(request)
        except (web.HTTPUnauthorized, web.HTTPForbidden):
            return {}
        return _asked(view, request, viewer) if viewer.reach(view.right) else {}


def _path(view: View) -> str:
    return "/" if view.name == "well" else f"/{view.name}"


def _asked(view: View, request: web.Request, viewer: Viewer) -> dict[str, str]:
    """Return what an address asks for, within the right of its person; raises HTTPForbidden.

    The view's name is among it, so it is never empty.
    """
    pinned = viewer.pins(view.right, request.query)
    if not pinned.keys() <= set(view.keys):
        raise web.HTTPForbidden  # the view cannot be kept to a part
    said = {key: value for key, value in request.query.items() if key not in PINNED}
    who = {"role": viewer.role.value, "here": str(viewer.guild_id or 0)}
    return {"view": view.name, **said, **request.match_info, **who, **pinned}


async def _static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in STATIC:
        raise web.HTTPNotFound
    headers = {"Cache-Control": "private, max-age=3600"}
    return web.Response(body=_file(name), content_type=STATIC[name], charset="utf-8", headers=headers)


@functools.cache
def _file(name: str) -> bytes:
    """Return a file of ours, read once: strangers may ask for it as often as they like."""
    return resources.files("bot.page").joinpath("static", name).read_bytes()


async def _choose_language(request: web.Request) -> web.Response:
    form = await form_of(request)
    language, path = str(form.get("language", "")), str(form.get("path", "/"))
    # A browser reads two slashes of either kind as the beginning of a host, and drops tabs between them.
    inside = path.startswith("/") and path[1:2] not in ("/", "\\") and path.isascii() and path.isprintable()
    answer = back(path if inside else "/")
    if language in LANGUAGES:
        answer.set_cookie(LANGUAGE_COOKIE, language, path="/", httponly=True, samesite="Strict")
    return answer


async def _choose_server(request: web.Request, _viewer: Viewer) -> web.Response:
    answer = back("/")
    if number := number_of(str((await form_of(request)).get("server", ""))):
        answer.set_cookie(SERVER_COOKIE, str(number), path="/", httponly=True, samesite="Strict")
    return answer


def _language(request: web.Request) -> str:
    accepted = request.headers.get(hdrs.ACCEPT_LANGUAGE, "")
    return language_of(accepted, request.cookies.get(LANGUAGE_COOKIE, ""))
