"""The versions of Python and of the packages, against the lock or else the package's own requirements."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from bot.doctor.findings import Finding, well, wrong

LOCK = Path(__file__).parents[2] / "requirements.lock"
PAGE = "docs/operators/install.md"
OLDEST_PYTHON = (3, 11)


async def look(lock: Path = LOCK) -> AsyncIterator[Finding]:
    """Compare the installed packages with the lock of a checkout, or with what a wheel requires."""
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        yield wrong(f"Python {python} is too old: use 3.11 or newer.")
    wanted, source = _wanted(lock)
    others = [sentence for requirement in wanted if (sentence := _unlike(requirement))]
    for sentence in others:
        yield wrong(f"{sentence} in {source}: install the locked versions, as {PAGE} says.")
    if not others:
        yield well(f"Python {python}; every package is as in {source}.")


def _wanted(lock: Path) -> tuple[Iterable[Requirement], str]:
    """Return the requirements, and where they come from."""
    return (_locked(lock), lock.name) if lock.is_file() else (_required(), "the package's requirements")


def _locked(lock: Path) -> list[Requirement]:
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    return [Requirement(line.split("--hash")[0].strip()) for line in text.splitlines() if line.strip()]


def _required() -> Iterable[Requirement]:
    return [Requirement(line) for line in requires("sdjax-bot") or ()]


def _unlike(wanted: Requirement) -> str | None:
    """Return how the installed package differs from what is wanted; None where it does not."""
    if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
        return None
    try:
        installed = version(wanted.name)
    except PackageNotFoundError:
        return f"{wanted.name} is not installed, and is {wanted.specifier}"
    if wanted.specifier.contains(installed, prereleases=True):
        return None
    return f"{wanted.name} is {installed} here, and {wanted.specifier}"
