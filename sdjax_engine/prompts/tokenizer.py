"""Prompts to CLIP token ids, by the checkpoint's own tokenizer files."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ftfy
import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers

from sdjax_engine.json_files import read_json
from sdjax_engine.prompts.chunks import Token, Tokens, divide, places_left
from sdjax_engine.prompts.emphasis import Piece, parse_emphasis
from sdjax_engine.request import UnreadableCheckpoint

DEFAULT_LENGTH = 77
COMMA = ",</w>"
START, END = "<|startoftext|>", "<|endoftext|>"
WORDS = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d"
    r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


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

    def _tokens_of(self, piece: Piece) -> Iterator[Token]:
        encoding = self._encoding(piece.text)
        for token_id, (start, _) in zip(encoding.ids, encoding.offsets, strict=True):
            yield Token(id=token_id, weight=piece.weight, place=piece.places[start])

    def _fill(self, ids: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return the ids of a chunk between its start and its end, padded to the fixed length."""
        padded = np.full(self.length, self.pad_id, np.int32)
        padded[: len(ids) + 2] = [self.start_id, *ids, self.end_id]
        return padded

    def _weights(self, chunk: Sequence[Token]) -> npt.NDArray[np.float32]:
        weights = np.ones(self.length, np.float32)
        weights[1 : len(chunk) + 1] = [token.weight for token in chunk]
        return weights


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the tokenizer's settings from its one or two files.

    special_tokens_map.json wins in folders from before tokenizer_config.json listed the added tokens, and is
    not read in later ones: the reference's rule, and what makes SD 2.x pad with "!".
    """
    settings = read_settings_in(folder / "tokenizer_config.json")
    if "added_tokens_decoder" not in settings:
        settings |= read_settings_in(folder / "special_tokens_map.json")
    return settings


def read_settings_in(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, an empty one where there is no file."""
    return read_json(path) if path.exists() else {}


def special_token(settings: dict[str, Any], role: str, default: str) -> str:
    """Return the token of this role; older files describe a token by an object instead of its text."""
    token = settings.get(role) or default
    return str(token.get("content", default) if isinstance(token, dict) else token)


def length_of(settings: dict[str, Any]) -> int:
    """Return the number of ids of a prompt; files without a limit hold a huge number."""
    length = settings.get("model_max_length", DEFAULT_LENGTH)
    return int(length) if isinstance(length, int) and 2 < length <= 1024 else DEFAULT_LENGTH


def read_bpe(folder: Path, *, unknown: str, special: tuple[str, ...]) -> tokenizers.Tokenizer:
    """Return the bare tokenizer, without truncation or padding, from either form of files."""
    whole, vocabulary, merges = (folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt"))
    if not whole.is_file() and not (vocabulary.is_file() and merges.is_file()):
        raise UnreadableCheckpoint(f"{folder} holds neither tokenizer.json nor vocab.json with merges.txt.")
    try:
        if whole.is_file():
            bpe = tokenizers.Tokenizer.from_file(str(whole))
        else:
            bpe = build_bpe(vocabulary, merges, unknown=unknown)
    except Exception as error:
        raise UnreadableCheckpoint(f"The tokenizer in {folder} cannot be read: {error}.") from error
    missing = [token for token in special if bpe.token_to_id(token) is None]
    if missing:
        raise UnreadableCheckpoint(f"The vocabulary in {folder} lacks the token {missing[0]}.")
    bpe.add_special_tokens([AddedToken(token, special=True) for token in dict.fromkeys(special)])
    bpe.no_truncation()
    bpe.no_padding()
    return bpe


def build_bpe(vocabulary: Path, merges: Path, *, unknown: str) -> tokenizers.Tokenizer:
    """Return CLIP's tokenizer over these files: lower case, one space between words, byte-level pairs."""
    pairs = models.BPE.from_file(
        str(vocabulary),
        str(merges),
        unk_token=unknown,
        continuing_subword_prefix="",
        end_of_word_suffix="</w>",
    )
    bpe = tokenizers.Tokenizer(pairs)
    bpe.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return bpe
