"""Serves the operators' page."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import resources
from types import MappingProxyType

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from bot.config.mistakes import quoted
from bot.domain.errors import ConfigurationError, StoreUnavailable, UnknownJob, UnreadableJob
from bot.page import audit, deliveries, failures, gallery, queue, usage, well, workers
from bot.page.entrance import Entrance
from bot.page.guard import HEADERS, Guard
from bot.page.house import House
from bot.page.pictures import Pictures
from bot.page.rendering import Renderer, View, language_of
from bot.store.rows.audit import OPERATOR, By
from bot.texts.catalogue import LANGUAGES
from bot.web.connections import Connections
from bot.web.server import BACKLOG, LOOPBACK

log = logging.getLogger(__name__)

MOST_BODY = 4096  # bytes of a form
STREAM_SECONDS = 300.0
MOST_STREAMS = 50
TICK_SECONDS = 1.0
LOGIN_TICKS = 5  # between two looks at whether its person is still logged in
LANGUAGE_COOKIE = "language"
WITHOUT_LOGIN = frozenset({"/enter", "/language"})
STATIC = MappingProxyType(
    {"page.css": "text/css", "htmx.min.js": "text/javascript", "hx-sse.min.js": "text/javascript"}
)
VIEWS = (
    View(name="well", read=well.read),
    View(name="queue", read=queue.read, keys=("person", "server", "model", "state")),
    View(
        name="gallery",
        read=gallery.read,
        keys=("words", "person", "server", "model", "after"),
        fresh_seconds=10.0,
    ),
    View(name="workers", read=workers.read),
    View(name="failures", read=failures.read, keys=("period",), fresh_seconds=10.0),
    View(name="deliveries", read=deliveries.read, keys=("kind",)),
    View(name="audit", read=audit.read, keys=("server", "person", "act", "before"), fresh_seconds=5.0),
    View(name="usage", read=usage.read, fresh_seconds=60.0),
)
JOB_ID = "{job:[A-Za-z0-9_-]{1,16}}"
"""Others find nothing here: PostgreSQL refuses some characters as if it were out of order."""
JOB = View(name="job", read=queue.read_job, keys=("job",))


@asynccontextmanager
async def serving(house: House) -> AsyncIterator[None]:
    """Serve the page inside the block, not at all for port 0; raises ConfigurationError for its address."""
    config = house.config
    if not config.port:
        yield
        return
    connections = Connections(most=2 * MOST_STREAMS)
    runner = web.AppRunner(application(house, connections), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    if runner.server is None:
        raise RuntimeError("the runner was not set up")
    host = config.host or LOOPBACK
    try:
        try:
            factory = connections.counted(runner.server)
            listener = await asyncio.get_running_loop().create_server(
                factory, host, config.port, backlog=BACKLOG
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise ConfigurationError(
                f"page.port: {quoted(host)}:{config.port} cannot be used: {reason}. "
                "Choose another port or host."
            ) from None
        except UnicodeError:  # the resolver's for a name with an empty or a long part
            raise ConfigurationError(f"page.host: {quoted(host)} is not the name of a machine.") from None
        log.info(
            "the operators' page is at %s; `sdjax-bot page-link` prints a link that opens it",
            config.url,
        )
        try:
            yield
        finally:
            listener.close()
    finally:
        await runner.cleanup()


def application(house: House, connections: Connections) -> web.Application:
    """Return the page as an application of aiohttp, with all its checks."""
    guard = Guard(house.config, connections)
    pages = _Pages(house, guard, connections)
    app = web.Application(middlewares=[guard.admit, pages.inside], client_max_size=MOST_BODY)
    app.add_routes(pages.routes())
    return app


class _Pages:
    def __init__(self, house: House, guard: Guard, connections: Connections) -> None:
        self._house = house
        self._entrance = Entrance(house.store.logins, guard)
        self._pictures = Pictures(house)
        self._renderer = Renderer(house)
        self._connections = connections
        self._streams = 0

    def routes(self) -> list[web.RouteDef]:
        """Return every route."""
        found = [
            web.get("/static/{name}", _static),
            web.get("/enter", self._entrance_page),
            web.post("/enter", self._enter),
            web.get(f"/pictures/{JOB_ID}/{{index}}", self._pictures.answer),
            web.post("/leave", self._leave),
            web.post("/language", _choose_language),
            web.post(f"/jobs/{JOB_ID}/cancel", self._cancel),
            web.post("/deliveries/{message}/send", self._send_now),
        ]
        for view in (*VIEWS, JOB):
            path = {"well": "/", "job": f"/jobs/{JOB_ID}"}.get(view.name, f"/{view.name}")
            found.append(web.get(path, self._page_of(view)))
            found.append(web.get(f"/live{path}", self._stream_of(view)))
        return found

    @web.middleware
    async def inside(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a person who is logged in; others see how to log in. Outages are told on the page."""
        path = request.path
        try:
            open_to_all = path in WITHOUT_LOGIN or path.startswith("/static/")
            if open_to_all or await self._entrance.who(request) is not None:
                return await handler(request)
            return self._plain(request, "entrance.html", status=401, link="", used=False)
        except StoreUnavailable as error:
            words = str(error) if self._entrance.knows(request) else ""  # it names the database's address
            return self._plain(request, "trouble.html", status=503, words=words)
        except web.HTTPNotFound:
            return self._plain(request, "trouble.html", status=404, words=None)

    def _page_of(self, view: View) -> Handler:
        async def page(request: web.Request) -> web.StreamResponse:
            language = _language(request)
            query = {**request.query, **request.match_info}
            middle = await self._renderer.fragment(view, query, language)
            live = f"/live{request.path_qs}"
            return self._plain(request, "page.html", view=view.name, middle=middle, live=live)

        return page

    def _stream_of(self, view: View) -> Handler:
        async def stream(request: web.Request) -> web.StreamResponse:
            if self._streams >= MOST_STREAMS:
                raise web.HTTPServiceUnavailable(headers={"Retry-After": "10"})
            self._streams += 1
            try:
                return await self._stream(view, request)
            finally:
                self._streams -= 1

        return stream

    async def _stream(self, view: View, request: web.Request) -> web.StreamResponse:
        """Send the middle of the page, and again whenever it changes, while its person is logged in."""
        self._connections.extend(request.transport, STREAM_SECONDS + TICK_SECONDS)
        language, query = _language(request), {**request.query, **request.match_info}
        middle, sent = await self._renderer.fragment(view, query, language), ""
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        answer.force_close()
        with suppress(StoreUnavailable, web.HTTPNotFound, ConnectionError):
            await answer.prepare(request)
            for tick in range(int(STREAM_SECONDS / TICK_SECONDS)):
                if middle != sent:  # at first too: what the browser shows may be of long ago
                    lines = "".join(f"data: {line}\n" for line in middle.splitlines())
                    await answer.write(f"{lines}\n".encode())
                    sent = middle
                await asyncio.sleep(TICK_SECONDS)
                if request.transport is None:  # aiohttp ends no handler whose browser is gone
                    break
                if tick % LOGIN_TICKS == 0 and await self._entrance.who(request) is None:
                    break
                middle = await self._renderer.fragment(view, query, language)
        return answer

    async def _entrance_page(self, request: web.Request) -> web.Response:
        return self._plain(request, "entrance.html", link=request.query.get("link", ""), used=False)

    async def _enter(self, request: web.Request) -> web.Response:
        answer = await self._entrance.enter(request, str((await _form(request)).get("link", "")))
        return answer or self._plain(request, "entrance.html", status=401, link="", used=True)

    async def _leave(self, request: web.Request) -> web.Response:
        everywhere = (await _form(request)).get("everywhere") == "yes"
        return await self._entrance.leave(request, everywhere=everywhere)

    async def _cancel(self, request: web.Request) -> web.Response:
        job_id = request.match_info["job"]
        try:
            job = await self._house.store.jobs.get(job_id)
            by = By(actor_id=OPERATOR, guild_id=job.origin.guild_id or 0)
            await self._house.store.jobs.cancel(job_id, user_id=None, by=by)
        except (UnknownJob, UnreadableJob):
            raise web.HTTPNotFound from None
        return self._changed(f"/jobs/{job_id}")

    async def _send_now(self, request: web.Request) -> web.Response:
        number = queue.number_of(request.match_info["message"])
        if not number or not await self._house.store.messages.send_now(number):
            raise web.HTTPNotFound
        return self._changed("/deliveries")

    def _changed(self, path: str) -> web.Response:
        """Answer a change: the browser sees the view at `path` as it is now."""
        self._renderer.forget_all()
        return _back(path)

    def _plain(
        self, request: web.Request, template: str, *, status: int = 200, **facts: object
    ) -> web.Response:
        language = _language(request)
        views = [view.name for view in VIEWS]
        html = self._renderer.render(
            template, language, views=views, languages=LANGUAGES, path=request.path_qs, **facts
        )
        return web.Response(text=html, status=status, content_type="text/html")


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
    form = await _form(request)
    language, path = str(form.get("language", "")), str(form.get("path", "/"))
    # A browser reads two slashes of either kind as the beginning of a host, and drops tabs between them.
    inside = path.startswith("/") and path[1:2] not in ("/", "\\") and path.isascii() and path.isprintable()
    answer = _back(path if inside else "/")
    if language in LANGUAGES:
        answer.set_cookie(LANGUAGE_COOKIE, language, path="/", httponly=True, samesite="Strict")
    return answer


async def _form(request: web.Request) -> Mapping[str, object]:
    """Return the fields of a form of ours; raises HTTPBadRequest for a body that none of our pages sends."""
    try:
        if request.content_type.startswith("multipart/"):
            raise ValueError("our forms are not sent in parts")
        return await request.post()
    except (ValueError, LookupError):  # bytes or a name of an encoding that do not exist
        raise web.HTTPBadRequest(text="This is no form of this page.") from None


def _language(request: web.Request) -> str:
    accepted = request.headers.get(hdrs.ACCEPT_LANGUAGE, "")
    return language_of(accepted, request.cookies.get(LANGUAGE_COOKIE, ""))


def _back(path: str) -> web.Response:
    return web.Response(status=303, headers={"Location": path})
