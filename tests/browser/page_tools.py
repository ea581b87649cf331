"""Tools of the page's tests: sizes, a clock, the command input and its list."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from playwright.async_api import Locator, Page

DESKTOP = (1280, 860)
PHONE = (360, 740)

OpenPage = Callable[..., Awaitable[Page]]


@dataclass
class Clock:
    """A clock that a test can advance."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Command box")


def messages(page: Page) -> Locator:
    return page.get_by_role("article")


async def send(page: Page, text: str) -> None:
    await box(page).fill(text)
    await page.keyboard.press("Enter")
