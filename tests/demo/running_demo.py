"""The demo as a newcomer starts it: `sdjax-bot demo` in its own process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from processes import Bot, end, start


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A running demo: the address of its page, its first picture, and its output."""

    address: str
    picture: Path
    said: str

    @property
    def cache(self) -> Path:
        """The folder of its compiled programs."""
        return self.picture.parent / "cache"


@asynccontextmanager
async def running_demo(folder: Path) -> AsyncIterator[Bot]:
    """`sdjax-bot demo` in `folder`, its page on any free port; killed at the end if it still runs."""
    bot = await start(
        *("demo", "--port", "0"),
        err=folder / "demo.err",
        folder=folder,
        out=asyncio.subprocess.PIPE,
    )
    try:
        yield bot
    finally:
        if bot.process.returncode is None:
            bot.process.kill()
            await end(bot)


async def read_until_serving(bot: Bot) -> Demo:
    """Read the demo's output until it serves."""
    assert bot.process.stdout is not None
    said, picture = "", None
    while line := (await bot.process.stdout.readline()).decode():
        said += line
        picture = re.search(r"The picture: +(.+)", line) or picture
        page = re.search(r"The page: +(http://127\.0\.0\.1:\d+)", line)
        if page and picture:
            return Demo(address=page[1], picture=Path(picture[1]), said=said)
    raise AssertionError(f"the demo ended before it served, having said:\n{said}{bot.err.read_text()}")
