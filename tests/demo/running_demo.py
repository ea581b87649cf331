"""The demo as a newcomer starts it: `sdjax-bot demo`, a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A running demo: the address of its page, its first picture, and all that it said."""

    address: str
    picture: Path
    said: str


async def read_until_serving(process: asyncio.subprocess.Process) -> Demo:
    """Read what the demo says until it serves."""
    assert process.stdout is not None
    said, picture = "", None
    while line := (await process.stdout.readline()).decode():
        said += line
        picture = re.search(r"The picture: +(.+)", line) or picture
        page = re.search(r"The page: +(http://127\.0\.0\.1:\d+)", line)
        if page and picture:
            return Demo(address=page[1], picture=Path(picture[1]), said=said)
    raise AssertionError(f"the demo ended before it served, having said:\n{said}")


async def start(folder: Path) -> asyncio.subprocess.Process:
    """Start `sdjax-bot demo` in `folder`, its page on any free port."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bot", "demo", "--port", "0"),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
