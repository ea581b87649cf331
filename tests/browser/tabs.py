"""Tabs of Chromium that one test after the other uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, ViewportSize

QUIET = "about:blank"

# Chromium itself logs errors that the page handles: a refused command (400), and a WebSocket that is
# lost or cannot be opened (with various messages).
EXPECTED: Sequence[str] = ("Failed to load resource", "WebSocket connection to")

Kind = tuple[object, ...]


class Tabs:
    """Keeps tabs by the options of their context, and collects the faults of the pages in them.

    A fault is a warning or an error of the console, an exception, or a request to an address other than the
    sandbox's.
    """

    def __init__(self, chromium: Browser) -> None:
        self.faults: list[str] = []
        self._chromium = chromium
        self._address = ""
        self._contexts: dict[Kind, BrowserContext] = {}
        self._free: dict[Kind, list[Page]] = {}
        self._used: list[tuple[Kind, Page]] = []

    def begin(self, address: str) -> None:
        """Begin a test whose sandbox has this address."""
        self._address = address
        self.faults.clear()

    async def end(self) -> None:
        """End the pages of the test. A page that was closed does not come back."""
        while self._used:
            kind, page = self._used.pop()
            if not page.is_closed():
                await page.mouse.move(0, 0)  # nothing is hovered when the next test begins
                await page.goto(QUIET)
                self._free[kind].append(page)

    async def free(self, size: tuple[int, int], **options: Any) -> Page:
        """A tab of this size and with these options of a context, which no other page of the test has."""
        kind: Kind = (size, *sorted(options.items()))
        free = self._free.setdefault(kind, [])
        page = free.pop(0) if free else await self._open(kind, size, options)
        self._used.append((kind, page))
        return page

    async def _open(self, kind: Kind, size: tuple[int, int], options: dict[str, Any]) -> Page:
        if kind not in self._contexts:
            viewport = ViewportSize(width=size[0], height=size[1])
            self._contexts[kind] = await self._chromium.new_context(
                viewport=viewport, locale="en-GB", **options
            )
        page = await self._contexts[kind].new_page()
        page.set_default_timeout(10_000)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", self._on_request)
        return page

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not any(words in message.text for words in EXPECTED):
            self.faults.append(message.text)

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self._address, QUIET, "data:", "blob:")):
            self.faults.append(f"a request to {request.url}")
