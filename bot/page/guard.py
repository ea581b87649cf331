"""What every request must pass, what forms and addresses say, and the headers of every answer.

A request must name a host of ours: otherwise a stranger's name that leads to the loopback would open the
page. A change must come from a page of ours.
"""

from __future__ import annotations

from typing import Any

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from multidict import MultiDictProxy
from yarl import URL

from bot.config.page import PageConfig
from bot.config.section import is_loopback
from bot.store.rows.jobs import LARGEST_ID
from bot.web.connections import Connections

Field = str | bytes | bytearray | web.FileField
MOST_DIGITS = 20
UTF_8 = "utf-8"
SAFE = frozenset({"GET", "HEAD"})
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with "no-referrer", forms would have the origin "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """The checks of the requests of one page."""

    def __init__(self, config: PageConfig, connections: Connections) -> None:
        self._address = URL(config.address) if config.address else None
        self._connections = connections

    def is_encrypted(self, request: web.Request) -> bool:
        """Return whether the browser asked for the address of the configuration, which is encrypted."""
        return self._address is not None and request.host == self._address.host_port_subcomponent

    def cookie(self, request: web.Request, name: str) -> str:
        """Return the value of a cookie of ours; empty without it."""
        return request.cookies.get(self._name(request, name), "")

    def set_cookie(
        self, request: web.Request, answer: web.Response, name: str, value: str, **limits: Any
    ) -> None:
        """Have `answer` set a cookie of ours; `limits` are those of aiohttp, such as `max_age`."""
        limits = {"samesite": "Strict", "secure": self.is_encrypted(request), **limits}
        answer.set_cookie(self._name(request, name), value, path="/", httponly=True, **limits)

    def _name(self, request: web.Request, name: str) -> str:
        """Return what the browser calls a cookie: over TLS, a name that no other host can set."""
        return f"__Host-{name}" if self.is_encrypted(request) else name

    @web.middleware
    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request that passes, once a connection."""
        self._connections.note_request(request.transport)
        try:
            self._check(request)
            response = await handler(request)
        except web.HTTPException as refused:
            refused.headers.update(HEADERS)
            refused.force_close()
            raise
        if not response.prepared:
            response.headers.update({**HEADERS, **response.headers})
            response.force_close()
        return response

    def _check(self, request: web.Request) -> None:
        origin = self._origin(request)
        if origin is None:
            raise web.HTTPMisdirectedRequest(text="This page has another address.")
        if request.method in SAFE:
            return
        site, named = request.headers.get("Sec-Fetch-Site"), request.headers.get(hdrs.ORIGIN)
        if (site, named) == (None, None) or site not in (None, "same-origin") or named not in (None, origin):
            raise web.HTTPForbidden(text="This request comes from another page.")

    def _origin(self, request: web.Request) -> str | None:
        """Return the origin of our pages as this browser calls it; None for a host that is not ours."""
        if self._address is not None and self.is_encrypted(request):
            return str(self._address.origin())
        try:
            host = URL(f"http://{request.host}").host or ""
        except ValueError:
            return None
        return f"http://{request.host}" if host == "localhost" or (host and is_loopback(host)) else None


async def form_of(request: web.Request) -> MultiDictProxy[Field]:
    """Return the fields of a form of ours; raises HTTPBadRequest for a body that none of our pages sends."""
    try:
        if request.content_type.startswith("multipart/"):
            raise ValueError("our forms are not sent in parts")
        if (request.charset or UTF_8).lower() != UTF_8:
            raise ValueError("some other encodings have lone surrogates, which cannot be stored or sent")
        return await request.post()
    except ValueError:
        raise web.HTTPBadRequest(text="This is no form of this page.") from None


def back(path: str) -> web.Response:
    """Return an answer that leads the browser to a path of ours, or to another address."""
    return web.Response(status=303, headers={"Location": path})


def number_of(text: str) -> int | None:
    """Return the id that somebody typed; None for an empty text, and 0, which nobody has, for any other."""
    if not text:
        return None
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < MOST_DIGITS else 0
    return number if number <= LARGEST_ID else 0
