"""Serves /metrics for Prometheus and /health for whoever starts the process anew."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from bot.errors import ConfigurationError
from bot.metrics import WELL, Metrics
from bot.web.health import Check, examine

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
Refresh = Callable[[], Awaitable[None]]


@asynccontextmanager
async def serving(
    host: str, port: int, metrics: Metrics, *, refresh: Refresh, checks: Mapping[str, Check]
) -> AsyncIterator[None]:
    """Listen at `host` (empty: loopback) and `port` (0: do not) until left.

    `refresh` reads what is only known when somebody asks. Raises ConfigurationError where the address is
    taken or is none of this machine's.
    """
    if not port:
        yield
        return
    pages = _Pages(metrics, refresh, checks)
    app = web.Application()
    app.router.add_get("/metrics", pages.metrics)
    app.router.add_get("/health", pages.health)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host or LOOPBACK, port).start()
        except OSError as error:
            raise ConfigurationError(
                f"web.port: {host or LOOPBACK}:{port} cannot be used: {error.strerror}."
            ) from None
        log.info("metrics and health are at http://%s:%d", host or LOOPBACK, port)
        yield
    finally:
        await runner.cleanup()


class _Pages:
    def __init__(self, metrics: Metrics, refresh: Refresh, checks: Mapping[str, Check]) -> None:
        self._metrics = metrics
        self._refresh = refresh
        self._checks = checks

    async def metrics(self, _request: web.Request) -> web.Response:
        await self._refresh()
        return web.Response(body=self._metrics.text(), headers={"Content-Type": PROMETHEUS})

    async def health(self, _request: web.Request) -> web.Response:
        parts = await examine(self._checks)
        well = all(answer == WELL for answer in parts.values())
        body = json.dumps({"status": WELL if well else "unwell", "parts": parts}, ensure_ascii=False)
        return web.Response(status=200 if well else 503, text=body, content_type="application/json")
