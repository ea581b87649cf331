"""Prompts, cleaned and read for emphasis, to chunks of CLIP token ids with their weights; unknown words.

read_prompt ──► tokens of each piece ──► divide into chunks ──► pad each to the fixed length
    ──► pad to the most chunks, for all text encoders together

The grammar of emphasis is that of AUTOMATIC1111's web UI:

    (word)       × 1.1                        [word]        ÷ 1.1
    ((word))     × 1.21, and so on            (word:1.3)    × 1.3
    \\( \\) \\[ \\]  the bracket itself, as text  BREAK         the rest starts a new chunk

As in that web UI, an opening bracket that is never closed reaches to the end, and a closing bracket that was
never opened is text.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import ftfy
import numpy as np
import numpy.typing as npt
import tokenizers

from sdjax_engine.prompts.tokenizer_files import length_of, read_bpe, read_tokenizer_settings, special_token
from sdjax_engine.prompts.triggers import NO_TRIGGERS, Triggers

FACTORS = {"(": 1.1, "[": 1 / 1.1}
OPENINGS = {")": "(", "]": "["}
MAX_WEIGHT = 10.0

Symbol = re.Match[str]
SYMBOL = re.compile(
    r"""
      (?P<escape> (?: \\\\ )* \\ [()\[\]] )
    | (?P<slashes> (?: \\\\ )+ ) (?= [()\[\]] )
    | (?P<opening> [(\[] )
    | (?P<closing> (?: : \s* (?P<factor> [+-]? (?: \d+ (?: [.٫] \d* )? | [.٫] \d+ ) ) \s* )? \) | \] )
    | (?P<pause> \s* \b BREAK \b \s* )
    | [^\\()\[\]:\sB]+ | \s+ | \\+ | .
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a prompt with one weight.

    `places` is the place of each character of `text` in the prompt. For a character after opening brackets or
    backslashes it is the place of the first of them. `breaks`: a BREAK is before the piece.
    """

    text: str
    weight: float = 1.0
    places: tuple[int, ...] = ()
    breaks: bool = False


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt that is read once for every tokenizer: its cleaned text, and the parts of that in order."""

    text: str
    pieces: tuple[Piece, ...]


def read_prompt(written: str) -> Prompt:
    """Return a prompt cleaned and divided by its emphasis; every string is valid.

    Emphasis is read from the cleaned text, so that （빨강：1.3） is emphasis too.
    """
    text = clean(written)
    return Prompt(text=text, pieces=parse_emphasis(text))


def clean(text: str) -> str:
    """Return `text` with Unicode and HTML entities repaired and outer blanks removed, as in CLIP's code.

    ftfy, which CLIP's code uses, also replaces full-width letters, digits and brackets by plain ones.
    """
    return html.unescape(html.unescape(ftfy.fix_text(text))).strip()


def parse_emphasis(text: str) -> tuple[Piece, ...]:
    """Return the pieces of a prompt in order; every string is valid.

    Weights are within ±`MAX_WEIGHT`. A text without brackets and BREAK is one piece.
    """
    symbols = tuple(SYMBOL.finditer(text))
    factors, openings = matched_brackets(symbols)
    around: dict[int, float] = {}
    pieces, place = [], 0
    for index, symbol in enumerate(symbols):
        if index in factors:
            around[index] = factors[index]
            continue
        if index in openings:
            del around[openings[index]]
        elif symbol["pause"]:
            pieces.append(Piece(text="", breaks=True))
        else:
            pieces.append(spell(symbol, place, weight=bounded(math.prod(around.values(), start=1.0))))
        place = symbol.end()
    return join(pieces)


def matched_brackets(symbols: Sequence[Symbol]) -> tuple[Mapping[int, float], Mapping[int, int]]:
    """Return the factor of each opening bracket, and the opening bracket of each closing bracket.

    Brackets are named by their index among the symbols. A closing bracket closes the last open bracket of
    its kind; round and square brackets are independent.
    """
    waiting: dict[str, list[int]] = {"(": [], "[": []}
    factors: dict[int, float] = {}
    openings: dict[int, int] = {}
    for index, symbol in enumerate(symbols):
        if kind := symbol["opening"]:
            waiting[kind].append(index)
            factors[index] = FACTORS[kind]
        elif (closing := symbol["closing"]) and waiting[OPENINGS[closing[-1]]]:
            openings[index] = waiting[OPENINGS[closing[-1]]].pop()
            if symbol["factor"]:
                factors[openings[index]] = bounded(float(symbol["factor"].replace("٫", ".")))
    return factors, openings


def spell(symbol: Symbol, place: int, *, weight: float) -> Piece:
    """Return a text symbol as a piece; `place` is given as the place of its first character."""
    slashes = symbol["escape"] or symbol["slashes"] or ""
    text = slashes[1::2] or symbol[0]  # an escape: the second character is the text
    start = symbol.end() - len(text)
    return Piece(text=text, weight=weight, places=(place, *range(start + 1, symbol.end())))


def join(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Join neighbours of one weight, and mark the piece after a BREAK."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        last = groups[-1][-1] if groups else None
        if last is None or piece.breaks or (last.text and last.weight != piece.weight):
            groups.append([])
        groups[-1].append(piece)
    return tuple(
        Piece(
            text="".join(piece.text for piece in (first, *others)),
            weight=others[-1].weight if others else first.weight,
            places=tuple(chain.from_iterable(piece.places for piece in (first, *others))),
            breaks=first.breaks,
        )
        for first, *others in groups
    )


def bounded(weight: float) -> float:
    """Return the weight limited to ±`MAX_WEIGHT`: larger weights give no usable picture in any network."""
    return max(-MAX_WEIGHT, min(MAX_WEIGHT, weight))


COMMA = ",</w>"
START, END = "<|startoftext|>", "<|endoftext|>"
BACKTRACK = 20  # AUTOMATIC1111's setting comma_padding_backtrack


@dataclass(frozen=True, kw_only=True)
class Token:
    """One token of a prompt: its id, its weight, and where its text begins in the prompt.

    One that `follows` is in the chunk of the token before it: both are vectors of one embedding.
    """

    id: int
    weight: float
    place: int
    follows: bool = False


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """A prompt as the text encoder takes it.

    `ids` and `weights` are (chunks, length), including start, end and padding, whose weight is 1. `count` is
    the number of the prompt's tokens. `limit` is the number of places for them: all places, minus the places
    that a BREAK or a comma leaves empty. `cut` is the end of the cleaned prompt that did not fit.
    """

    ids: npt.NDArray[np.int32] = field(repr=False)
    weights: npt.NDArray[np.float32] = field(repr=False)
    count: int
    limit: int
    cut: str


@dataclass(frozen=True, kw_only=True)
class TokenizedText:
    """One text as the text encoders read it; equal texts have equal encodings.

    `ids` is (encoders, chunks, length) int32 and `weights` (chunks, length) float32, as bytes, padded to the
    most chunks of the offer; `chunks` says how many count. A `silent` text is encoded as zeros. The encoding
    is taken `clip_skip` layers before the usual one.
    """

    ids: bytes = field(repr=False)
    weights: bytes = field(repr=False)
    chunks: int
    silent: bool = False
    clip_skip: int = 0


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """CLIP's byte-level tokenizer: any text of any language has ids.

    `length` is the fixed number of ids of a prompt, including the start and end ids. `size` is the largest id
    plus one.
    """

    length: int
    size: int
    start_id: int
    end_id: int
    pad_id: int
    bpe: tokenizers.Tokenizer = field(repr=False)

    @classmethod
    def load(cls, folder: Path, *, pad: str | None = None) -> Tokenizer:
        """Read a tokenizer folder: tokenizer.json, or vocab.json with merges.txt.

        `pad` replaces the folder's padding token; in a prompt it is always one token. Raises
        UnreadableCheckpoint if neither is there, a file is invalid or a special token is unknown.
        """
        settings = read_tokenizer_settings(folder)
        start, end = special_token(settings, "bos_token", START), special_token(settings, "eos_token", END)
        pad = pad or special_token(settings, "pad_token", END)
        unknown = special_token(settings, "unk_token", END)
        bpe = read_bpe(folder, settings, unknown=unknown, special=(start, end, pad))
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
        """The number of tokens of a chunk between its start and its end."""
        return self.length - 2

    def encode(self, text: str) -> npt.NDArray[np.int32]:
        """Return the ids of a text, `(length,)`, with brackets as plain text, as in the reference.

        Tokens beyond the length are left out (see `cut`).
        """
        return self._fill(self._encoding(clean(text)).ids[: self.room])

    def plain(self, text: str) -> Tokens:
        """Return a text in one chunk, neither cleaned nor read for emphasis."""
        text = text.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
        encoding = self._encoding(text)
        return Tokens(
            ids=self._fill(encoding.ids[: self.room])[None],
            weights=np.ones((1, self.length), np.float32),
            count=len(encoding.ids),
            limit=self.room,
            cut=text[encoding.offsets[self.room][0] :] if len(encoding.ids) > self.room else "",
        )

    def whole(self, text: str) -> list[int]:
        """Return the ids of a whole text between its start and its end, however long."""
        return [self.start_id, *self._encoding(clean(text)).ids, self.end_id]

    def cut(self, text: str) -> str:
        """Return the end of `text` that `encode` leaves out, or ''."""
        cleaned = clean(text)
        offsets = self._encoding(cleaned).offsets
        return cleaned[offsets[self.room][0] :] if len(offsets) > self.room else ""

    def tokens(self, prompt: Prompt, *, max_chunks: int, triggers: Triggers = NO_TRIGGERS) -> Tokens:
        """Return a prompt in as many chunks as it needs, up to `max_chunks`, with its emphasis as weights.

        A prompt of one chunk without brackets, BREAK and `triggers` has the same ids as from `encode`. A
        trigger has at most `room` ids.
        """
        parts: list[list[Token]] = [[]]
        for piece in prompt.pieces:
            if piece.breaks:
                parts.append([])
            parts[-1].extend(self._tokens_of(piece, triggers))
        room, comma_id = self.length - 2, self.bpe.token_to_id(COMMA)
        chunks, left = divide(parts, room=room, max_chunks=max_chunks, comma_id=comma_id)
        limit = places_left(chunks, room=room, max_chunks=max_chunks)
        return Tokens(
            ids=np.stack([self._fill([token.id for token in chunk]) for chunk in chunks]),
            weights=np.stack([self._weights(chunk) for chunk in chunks]),
            count=sum(map(len, parts)),
            limit=limit,
            cut=prompt.text[left[0].place :] if left else "",
        )

    def lengthened(self, tokens: Tokens, chunks: int) -> Tokens:
        """Return the tokens with empty chunks after their own, so that they have `chunks`."""
        missing = chunks - len(tokens.ids)
        empty = np.tile(self._fill([]), (missing, 1))
        ones = np.ones((missing, self.length), np.float32)
        return replace(
            tokens,
            ids=np.concatenate([tokens.ids, empty]),
            weights=np.concatenate([tokens.weights, ones]),
        )

    def _encoding(self, text: str) -> tokenizers.Encoding:
        return self.bpe.encode(text, add_special_tokens=False)

    def _tokens_of(self, piece: Piece, triggers: Triggers) -> Iterator[Token]:
        for begin, text, vectors in triggers.parts(piece.text):
            for number, each in enumerate(vectors):
                place = piece.places[begin]
                yield Token(id=each, weight=piece.weight, place=place, follows=number > 0)
            if not vectors:
                encoding = self._encoding(text)
                for each, (start, _) in zip(encoding.ids, encoding.offsets, strict=True):
                    yield Token(id=each, weight=piece.weight, place=piece.places[begin + start])

    def _fill(self, ids: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return the ids of a chunk between its start and its end, padded to the fixed length."""
        padded = np.full(self.length, self.pad_id, np.int32)
        padded[: len(ids) + 2] = [self.start_id, *ids, self.end_id]
        return padded

    def _weights(self, chunk: Sequence[Token]) -> npt.NDArray[np.float32]:
        weights = np.ones(self.length, np.float32)
        weights[1 : len(chunk) + 1] = [token.weight for token in chunk]
        return weights


def tokens_of_each(
    tokenizers: Sequence[Tokenizer],
    prompt: Prompt,
    *,
    max_chunks: int,
    triggers: Sequence[Triggers] | None = None,
) -> list[Tokens]:
    """Return a prompt as each text encoder takes it; all have the chunks of the one that needs most.

    Each tokenizer has its own `triggers`.
    """
    of_each = triggers or [NO_TRIGGERS] * len(tokenizers)
    found = [
        each.tokens(prompt, max_chunks=max_chunks, triggers=names)
        for each, names in zip(tokenizers, of_each, strict=True)
    ]
    chunks = max(len(tokens.ids) for tokens in found)
    return [each.lengthened(tokens, chunks) for each, tokens in zip(tokenizers, found, strict=True)]


def divide(
    parts: Sequence[Sequence[Token]], *, room: int, max_chunks: int, comma_id: int | None
) -> tuple[list[Sequence[Token]], Sequence[Token]]:
    """Divide a prompt into 1 to `max_chunks` chunks of at most `room` tokens, and the tokens left over.

    `parts` are the prompt's parts between BREAKs; each starts a chunk. A longer part is divided as in
    AUTOMATIC1111: after a comma, if one of the last tokens is a comma. The last chunk ignores BREAKs and
    takes as many tokens as it has places, so that no token is cut off while a place is empty. The vectors of
    an embedding stay together.
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
    size = undivided(rest, room)
    return [*chunks, rest[:size]], rest[size:]


def size_of_first(part: Sequence[Token], *, room: int, comma_id: int | None) -> int:
    """Return how many tokens of a part go into its first chunk.

    The chunk ends after its last comma if that leaves fewer than `BACKTRACK` places empty, unless the next
    token is a comma too.
    """
    if len(part) <= room or part[room].id == comma_id:
        return min(len(part), room)
    commas = (place for place in range(room - BACKTRACK, room) if place >= 0 and part[place].id == comma_id)
    return undivided(part, max(commas, default=room - 1) + 1)


def undivided(part: Sequence[Token], size: int) -> int:
    """Return `size`, or where the embedding begins whose vectors the first `size` tokens would divide."""
    while size < len(part) and part[size].follows:
        size -= 1
    return size


def places_left(chunks: Sequence[Sequence[Token]], *, room: int, max_chunks: int) -> int:
    """Return the number of places for tokens, without those that all chunks but the last leave empty."""
    return max_chunks * room - sum(room - len(chunk) for chunk in chunks[:-1])


def padded_text(
    encoders: Sequence[Tokens], shape: tuple[int, int, int], *, silent: bool, clip_skip: int = 0
) -> TokenizedText:
    """Return one text from its tokens for each encoder; its ids are of `shape` (encoders, chunks, length)."""
    ids, weights = np.zeros(shape, np.int32), np.ones(shape[1:], np.float32)
    chunks = len(encoders[0].ids)
    weights[:chunks] = encoders[0].weights
    for index, tokens in enumerate(encoders):
        ids[index, :chunks] = tokens.ids
    return TokenizedText(
        ids=ids.tobytes(), weights=weights.tobytes(), chunks=chunks, silent=silent, clip_skip=clip_skip
    )


HAN = "\u3400-\u4dbf\u4e00-\u9fff"
WORD = re.compile(rf"[{HAN}]+|[^\W\d_{HAN}]+")
IS_HAN = re.compile(f"[{HAN}]")
JOINED = re.compile("[\u0600-\u06ff\uac00-\ud7a3]+")
"""Scripts whose particles are written together with a word: Arabic and Hangul."""

LONGEST_WORD, MOST_UNKNOWN = 40, 8
"""The most characters of a word that is divided, and the most words that are returned."""


def unknown_words(text: str, known: Set[str]) -> tuple[str, ...]:
    """Return the first `MOST_UNKNOWN` words of `text` that are not in `known`, whose words are in lower case.

    Chinese, which has no spaces, is divided into the longest known words. Arabic and Korean words are known
    if they are made of known ones. Without known words every word counts as known.
    """
    if not known:
        return ()
    found: dict[str, None] = {}
    for match in WORD.finditer(text):
        found |= dict.fromkeys(_unknown_in(match[0].casefold(), known))
        if len(found) >= MOST_UNKNOWN:
            break
    return tuple(found)[:MOST_UNKNOWN]


def _unknown_in(word: str, known: Set[str]) -> Iterator[str]:
    if IS_HAN.match(word):
        yield from _not_covered(word, known)
    elif word not in known and not (word.isascii() and len(word) == 1) and not _is_made_of(word, known):
        yield word[:LONGEST_WORD]


def _not_covered(text: str, known: Set[str]) -> Iterator[str]:
    """Yield the runs of characters between the longest known words."""
    start = place = 0
    while place < len(text):
        ends = range(min(len(text), place + LONGEST_WORD), place, -1)
        end = next((end for end in ends if text[place:end] in known), None)
        if end is None:
            place += 1
            continue
        if start < place:
            yield text[start:place][:LONGEST_WORD]
        start = place = end
    if start < place:
        yield text[start:place][:LONGEST_WORD]


def _is_made_of(word: str, known: Set[str]) -> bool:
    """Return whether a word of a script with particles is several known words in a row."""
    if len(word) > LONGEST_WORD or not JOINED.fullmatch(word):
        return False
    reached = {0}
    for end in range(1, len(word) + 1):
        if any(word[begin:end] in known for begin in reached):
            reached.add(end)
    return len(word) in reached
