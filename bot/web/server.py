"""Serves /metrics for Prometheus, /health for operators, and /livez and /readyz for probes."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from bot.config.mistakes import quoted
from bot.domain.errors import ConfigurationError
from bot.telemetry.metrics import WELL, Metrics
from bot.web.connections import Connections

CHECK_SECONDS = 3.0

Check = Callable[[], Awaitable[str]]
"""Returns `WELL`, or a few words on what is wrong."""


async def examine(checks: Mapping[str, Check]) -> dict[str, str]:
    """Run all checks at once and return their answers. A check without an answer in time is not well."""
    checks = dict(checks)  # parts that open meanwhile add checks
    answers = await asyncio.gather(*(_answer(check) for check in checks.values()))
    return dict(zip(checks, answers, strict=True))


async def _answer(check: Check) -> str:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"


log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
BACKLOG = 32  # connections that asyncio accepts at once, each with a file, before any of them is counted
Refresh = Callable[[], Awaitable[None]]
Notes = Callable[[], Awaitable[list[str]]]


async def no_notes() -> list[str]:
    """Return that there is nothing to note."""
    return []


@asynccontextmanager
async def serving(
    host: str,
    port: int,
    metrics: Metrics,
    *,
    refresh: Refresh,
    checks: Mapping[str, Check],
    notes: Notes = no_notes,
    token: str | None = None,
) -> AsyncIterator[None]:
    """Serve at `host` (empty: loopback) and `port` (0: not at all) inside the block.

    `refresh` updates the metrics before /metrics answers. With a `token`, /metrics and /health answer only
    requests that carry it. `notes` are told by /health beside the parts, and change nothing else. Raises
    ConfigurationError for an address in use, or of another machine.
    """
    if not port:
        yield
        return
    connections = Connections()
    app = web.Application(middlewares=[_one_request_of(connections)])
    app.add_routes(_Pages(metrics, refresh, checks, notes, token).routes())
    async with listening(app, connections, host, port, section="web"):
        log.info("metrics and health are at http://%s:%d", host or LOOPBACK, port)
        yield


@asynccontextmanager
async def listening(
    app: web.Application, connections: Connections, host: str, port: int, *, section: str
) -> AsyncIterator[None]:
    """Serve an application at `host` (empty: loopback) and `port` inside the block.

    Raises ConfigurationError, which names the keys of `section`.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    if runner.server is None:
        raise RuntimeError("the runner was not set up")
    try:
        try:
            listener = await asyncio.get_running_loop().create_server(
                connections.counted(runner.server), host or LOOPBACK, port, backlog=BACKLOG
            )
        except OSError as error:
            raise ConfigurationError(_unusable(section, host or LOOPBACK, port, error)) from None
        except UnicodeError:  # the resolver's for a name with an empty or a long part
            raise ConfigurationError(
                f"{section}.host: {quoted(host)} is not the name of a machine."
            ) from None
        try:
            yield
        finally:
            listener.close()
    finally:
        await runner.cleanup()


def _one_request_of(connections: Connections) -> Middleware:
    """Return a middleware that closes each connection after its first answer, so that its time is bounded."""

    @web.middleware
    async def one_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        connections.note_request(request.transport)
        try:
            response = await handler(request)
        except web.HTTPException as refused:
            refused.force_close()
            raise
        response.force_close()
        return response

    return one_request


def _unusable(section: str, host: str, port: int, error: OSError) -> str:
    """Return a sentence for an address that cannot be served, with what to do."""
    # Asyncio's own words repeat the address. The resolver's errors have negative numbers.
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        return (
            f"{section}.port: {host}:{port} cannot be used: {reason}. Give this process another port, such "
            f"as by SDJAX__{section.upper()}__PORT, or 0 for none."
        )
    remedy = "" if error.errno in (errno.EMFILE, errno.ENFILE) else " Name an address of this machine."
    return f"{section}.host: {quoted(host)} cannot be used: {reason}.{remedy}"


class _Pages:
    def __init__(
        self,
        metrics: Metrics,
        refresh: Refresh,
        checks: Mapping[str, Check],
        notes: Notes,
        token: str | None,
    ) -> None:
        self._metrics = metrics
        self._refresh = refresh
        self._checks = checks
        self._notes = notes
        self._token = token

    def routes(self) -> list[web.RouteDef]:
        """Return the route of every page."""
        return [
            web.get("/metrics", self._metrics_page),
            web.get("/health", self._health_page),
            web.get("/livez", self._livez),
            web.get("/readyz", self._readyz),
        ]

    async def _metrics_page(self, request: web.Request) -> web.Response:
        self._check_token(request)
        await self._refresh()
        return web.Response(body=self._metrics.text(), headers={"Content-Type": PROMETHEUS})

    async def _health_page(self, request: web.Request) -> web.Response:
        self._check_token(request)
        parts = await examine(self._checks)
        well = _all_well(parts)
        answer: dict[str, Any] = {"status": WELL if well else "unwell", "parts": parts}
        if notes := await self._notes():
            answer["notes"] = notes
        body = json.dumps(answer, ensure_ascii=False)
        return web.Response(status=200 if well else 503, text=body, content_type="application/json")

    async def _livez(self, _request: web.Request) -> web.Response:
        """Answer 200: the event loop runs."""
        return web.Response(text="live")

    async def _readyz(self, _request: web.Request) -> web.Response:
        """Answer 200 if every part is well, else 503, without reasons."""
        ready = _all_well(await examine(self._checks))
        return web.Response(status=200 if ready else 503, text="ready" if ready else "not ready")

    def _check_token(self, request: web.Request) -> None:
        if self._token is None:
            return
        scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        # aiohttp reads bytes that are no UTF-8 as lone surrogates.
        same = secrets.compare_digest(given.encode(errors="surrogateescape"), self._token.encode())
        if scheme.lower() != "bearer" or not same:
            raise web.HTTPUnauthorized(
                headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
                text="This page asks for the token of [web] token_file.",
            )


def _all_well(parts: Mapping[str, str]) -> bool:
    return all(answer == WELL for answer in parts.values())
