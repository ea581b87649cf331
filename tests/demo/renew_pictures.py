"""Makes all pictures of docs/images: `make pictures`.

make pictures ONLY="first session"    some of them
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import first_pictures
import moderators_pictures
import operators_pictures
import session_pictures
from chromium import launched
from documented import IMAGES, Kept
from playwright.async_api import Browser

CACHE = Path(tempfile.gettempdir()) / "sdjax-pictures"


async def first(browser: Browser, folder: Path, kept: Kept) -> None:
    """A newcomer's pictures and the film."""
    async with first_pictures.demo_of_two_sizes(folder, CACHE) as sandbox:
        await first_pictures.whole_visit(browser, sandbox.address, kept.keep)


async def moderators(browser: Browser, folder: Path, kept: Kept) -> None:
    """Moderators' pictures."""
    await moderators_pictures.visited(browser, folder, kept.keep)


async def operators(browser: Browser, folder: Path, kept: Kept) -> None:
    """The pictures of the operators' page."""
    await operators_pictures.visited(browser, folder, kept.keep)


async def session(browser: Browser, folder: Path, kept: Kept) -> None:
    """The pictures of a group session."""
    await session_pictures.visited(browser, folder, CACHE, kept.keep)


VISITS: dict[str, Callable[[Browser, Path, Kept], Awaitable[None]]] = {
    "first": first,
    "moderators": moderators,
    "operators": operators,
    "session": session,
}
FILES = {
    "first": first_pictures.FILES,
    "moderators": moderators_pictures.FILES,
    "operators": operators_pictures.FILES,
    "session": session_pictures.FILES,
}


async def write(names: list[str]) -> None:
    """Make the pictures of the visits with these names, and write them."""
    kept = Kept()
    async with launched() as browser:
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                await VISITS[name](browser, Path(folder), kept)
    for name, data in kept.items():
        (IMAGES / name).write_bytes(data)
        print(f"{name}: {len(data) // 1000} kB")
    missing = frozenset().union(*(FILES[name] for name in names)) - set(kept)
    assert not missing, f"not made this time: {missing}"


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1:] or list(VISITS)))
