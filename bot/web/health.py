"""Whether each part of a process is well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

CHECK_SECONDS = 3.0

Check = Callable[[], Awaitable[str]]
"""Says `WELL`, or in a few words what is wrong."""


async def examine(checks: Mapping[str, Check]) -> dict[str, str]:
    """What each check says, all asked at once; one that says nothing in time is not well.

    Checks that are added meanwhile, as parts start, are not among them.
    """
    asked = dict(checks)
    answers = await asyncio.gather(*(_asked(check) for check in asked.values()))
    return dict(zip(asked, answers, strict=True))


async def _asked(check: Check) -> str:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"
