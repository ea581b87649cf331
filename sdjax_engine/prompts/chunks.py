"""A prompt's tokens divided into chunks, each of which the text encoder reads by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

BACKTRACK = 20  # AUTOMATIC1111's setting comma_padding_backtrack


@dataclass(frozen=True, kw_only=True)
class Token:
    """One token of a prompt: its id, how much it counts, and where in the prompt its text begins."""

    id: int
    weight: float
    place: int


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """A prompt as the text encoder takes it.

    `ids` and `weights` are (chunks, length), the start, end and padding included, which weigh 1. `count` is
    the number of tokens that the prompt has, `limit` how many of it there is room for: all places, less those
    that a BREAK or a comma leaves empty. `cut` is the prompt's end that had no room, as it is written.
    """

    ids: npt.NDArray[np.int32] = field(repr=False)
    weights: npt.NDArray[np.float32] = field(repr=False)
    count: int
    limit: int
    cut: str


def divide(
    parts: Sequence[Sequence[Token]], *, room: int, max_chunks: int, comma_id: int | None
) -> tuple[list[Sequence[Token]], Sequence[Token]]:
    """Divide a prompt into 1 to `max_chunks` chunks of at most `room` tokens, and what is left over.

    `parts` are what BREAKs separate: each begins a chunk. What is longer is divided as AUTOMATIC1111 divides
    it, behind a comma where one of the last tokens is one. The last chunk takes all that it has room for,
    whatever BREAKs are left: nothing is cut for the sake of an empty place.
    """
    chunks: list[Sequence[Token]] = []
    waiting = list(parts[:-1] if len(parts) > 1 and not parts[-1] else parts)
    while waiting and len(chunks) < max_chunks - 1:
        part = waiting.pop(0)
        size = size_of_first(part, room=room, comma_id=comma_id)
        chunks.append(part[:size])
        if part[size:]:
            waiting.insert(0, part[size:])
    if not waiting:
        return chunks, []
    rest = [token for part in waiting for token in part]
    return [*chunks, rest[:room]], rest[room:]


def size_of_first(part: Sequence[Token], *, room: int, comma_id: int | None) -> int:
    """Return how many tokens of a part its first chunk takes.

    It ends behind its last comma where that leaves less than `BACKTRACK` places empty, except when the next
    token is a comma too.
    """
    if len(part) <= room or part[room].id == comma_id:
        return min(len(part), room)
    commas = (place for place in range(room - BACKTRACK, room) if place >= 0 and part[place].id == comma_id)
    return max(commas, default=room - 1) + 1


def places_left(chunks: Sequence[Sequence[Token]], *, room: int, max_chunks: int) -> int:
    """Return how many tokens there is room for, given where the chunks but the last one end."""
    return max_chunks * room - sum(room - len(chunk) for chunk in chunks[:-1])
