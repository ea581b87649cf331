"""Prompts to chunks of CLIP token ids with their weights.

clean ──► parse_emphasis ──► tokens of each piece ──► divide into chunks ──► pad each to the fixed length
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ftfy
import numpy as np
import numpy.typing as npt
import tokenizers

from sdjax_engine.prompts.emphasis import Piece, parse_emphasis
from sdjax_engine.prompts.tokenizer_files import length_of, read_bpe, read_settings, special_token

COMMA = ",</w>"
START, END = "<|startoftext|>", "<|endoftext|>"
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


def clean(text: str) -> str:
    """Return `text` with broken Unicode, HTML entities and outer blanks put right, as CLIP's code does.

    ftfy also makes full-width letters, digits and brackets plain ones, as CLIP's code does with it: emphasis
    is read from the cleaned text, so that （빨강：1.3） is emphasis too.
    """
    return html.unescape(html.unescape(ftfy.fix_text(text))).strip()


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """CLIP's byte-level tokenizer: any text of any language has ids.

    `length` is the fixed number of ids of a prompt, the start and end ids included; `size` is one more than
    the largest id there is.
    """

    length: int
    size: int
    start_id: int
    end_id: int
    pad_id: int
    bpe: tokenizers.Tokenizer = field(repr=False)

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Read a tokenizer folder: tokenizer.json, or vocab.json with merges.txt.

        Raises UnreadableCheckpoint when neither is there, a file is broken or a special token is unknown.
        """
        settings = read_settings(folder)
        start, end = special_token(settings, "bos_token", START), special_token(settings, "eos_token", END)
        pad = special_token(settings, "pad_token", END)
        bpe = read_bpe(folder, unknown=special_token(settings, "unk_token", END), special=(start, end, pad))
        vocabulary = bpe.get_vocab()
        return cls(
            length=length_of(settings),
            size=1 + max(vocabulary.values()),
            start_id=vocabulary[start],
            end_id=vocabulary[end],
            pad_id=vocabulary[pad],
            bpe=bpe,
        )

    @property
    def room(self) -> int:
        """How many tokens a chunk has room for between its start and its end."""
        return self.length - 2

    def encode(self, text: str) -> npt.NDArray[np.int32]:
        """Return the ids of a text that is plain to its last bracket, `(length,)`, as the reference does.

        What does not fit is left out (see `cut`).
        """
        return self._fill(self._encoding(clean(text)).ids[: self.room])

    def cut(self, text: str) -> str:
        """Return the end of `text` that `encode` leaves out, '' if nothing."""
        cleaned = clean(text)
        offsets = self._encoding(cleaned).offsets
        return cleaned[offsets[self.room][0] :] if len(offsets) > self.room else ""

    def tokens(self, text: str, *, max_chunks: int) -> Tokens:
        """Return a prompt in as many chunks as it needs, `max_chunks` at most, with its emphasis as weights.

        A prompt of one chunk without brackets and BREAK has the ids that `encode` gives it.
        """
        cleaned = clean(text)
        parts: list[list[Token]] = [[]]
        for piece in parse_emphasis(cleaned):
            if piece.breaks:
                parts.append([])
            parts[-1].extend(self._tokens_of(piece))
        room, comma_id = self.length - 2, self.bpe.token_to_id(COMMA)
        chunks, left = divide(parts, room=room, max_chunks=max_chunks, comma_id=comma_id)
        limit = places_left(chunks, room=room, max_chunks=max_chunks)
        return Tokens(
            ids=np.stack([self._fill([token.id for token in chunk]) for chunk in chunks]),
            weights=np.stack([self._weights(chunk) for chunk in chunks]),
            count=sum(map(len, parts)),
            limit=limit,
            cut=cleaned[left[0].place :] if left else "",
        )

    def _encoding(self, text: str) -> tokenizers.Encoding:
        return self.bpe.encode(text, add_special_tokens=False)

    def _tokens_of(self, piece: Piece) -> list[Token]:
        encoding = self._encoding(piece.text)
        found = zip(encoding.ids, encoding.offsets, strict=True)
        return [Token(id=each, weight=piece.weight, place=piece.places[start]) for each, (start, _) in found]

    def _fill(self, ids: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return the ids of a chunk between its start and its end, padded to the fixed length."""
        padded = np.full(self.length, self.pad_id, np.int32)
        padded[: len(ids) + 2] = [self.start_id, *ids, self.end_id]
        return padded

    def _weights(self, chunk: Sequence[Token]) -> npt.NDArray[np.float32]:
        weights = np.ones(self.length, np.float32)
        weights[1 : len(chunk) + 1] = [token.weight for token in chunk]
        return weights


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
