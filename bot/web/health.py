"""Checks the health of each part of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

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
