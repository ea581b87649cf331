"""What a check finds, and the running of checks side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

from bot.domain.errors import BotError
from bot.telemetry.redaction import redact
from sdjax_engine.errors import EngineError


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report: whether a part is well, and a text with the facts or what to do.

    `run` gives it the part, which is that of its check.
    """

    well: bool
    text: str
    part: str = ""


Find = Callable[[], AsyncIterator[Finding]]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check of one part, which takes at most `seconds`."""

    part: str
    find: Find
    seconds: float = 20.0


def well(text: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(well=True, text=redact(text))


def wrong(text: str) -> Finding:
    """Return a finding whose text says what to do."""
    return Finding(well=False, text=redact(text))


async def run(checks: Sequence[Check]) -> AsyncIterator[Finding]:
    """Run all checks at once, and yield their findings in the order of `checks`."""
    tasks = [asyncio.create_task(_found(check)) for check in checks]
    try:
        for task in tasks:
            for finding in await task:
                yield finding
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _found(check: Check) -> list[Finding]:
    """Return what the check finds. Its error, or the end of its time, is one more finding."""
    found: list[Finding] = []
    try:
        async with asyncio.timeout(check.seconds):
            async for finding in check.find():
                found.append(finding)
    except TimeoutError:
        found.append(wrong(f"no answer within {check.seconds:g} s: see whether it hangs."))
    except (BotError, EngineError) as error:
        found += [wrong(line) for line in str(error).splitlines()]
    except Exception as error:  # noqa: BLE001 - the edge: an unforeseen error must not stop the other checks
        words = str(error).partition("\n")[0]
        found.append(wrong(f"the check failed with {type(error).__name__}: {words}"))
    return [replace(finding, part=check.part) for finding in found]
