"""The state of picture files, and how lost files are repainted, as plain data; no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bot.domain.jobs import Recipe

DELETION_SECONDS = 60.0
"""After this time a process that was deleting a file counts as dead."""


class FileState(StrEnum):
    """The state of a file: kept ──► going (being deleted) ──► gone ──► wanted (to be repainted) ──► kept."""

    KEPT = "kept"
    GOING = "going"
    GONE = "gone"
    WANTED = "wanted"


@dataclass(frozen=True, kw_only=True)
class Painter:
    """The origin of a file: the image at `index` of a job, and its picture's perceptual `hash`, if known."""

    job_id: str
    index: int
    recipe: Recipe
    hash: int | None = None


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Lost files: `since` when they are wanted, and the `failure` if they cannot be repainted."""

    since: float
    failure: str | None


@dataclass(frozen=True, kw_only=True)
class LostFile:
    """A wanted file, leased to a worker that repaints it."""

    name: str
    painter: Painter
