"""Prompts as the token ids of T5: raw text in the most likely pieces of words, and an end.

Nothing of a prompt is cleaned or read as emphasis, and names of special tokens that it has, such as `</s>`,
are these tokens, all as in the reference.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import normalizers, pre_tokenizers

from sdjax_engine.errors import UnreadableCheckpoint, cut, first_line
from sdjax_engine.json_files import read_json
from sdjax_engine.prompts.tokenizer_files import (
    bare,
    check_added,
    read_tokenizer_settings,
    special_token,
    steps_of,
)

END, PAD = "</s>", "<pad>"
FILE = "tokenizer.json"
WORD_START = "▁"
LONGEST_REPLACEMENT = 64
"""Bytes that stand for one character; U+FDFA, an Arabic sentence, has 33."""
LONGEST_PIECE = 64
"""Letters of a piece, all of which are sought at each letter of a prompt; T5's longest has 16."""


@dataclass(frozen=True, kw_only=True)
class PlainTokens:
    """A prompt as token ids, padded on the right.

    `count` is the number of the prompt's own tokens, `limit` the number of places for them. `cut` is the end
    of the prompt that did not fit.
    """

    ids: npt.NDArray[np.int32] = field(repr=False)
    count: int
    limit: int
    cut: str


@dataclass(frozen=True, kw_only=True)
class UnigramTokenizer:
    """T5's tokenizer. `size` is the largest id plus one."""

    size: int
    end_id: int
    pad_id: int
    pieces: tokenizers.Tokenizer = field(repr=False)

    @classmethod
    def load(cls, folder: Path) -> UnigramTokenizer:
        """Read a folder with tokenizer.json; raises UnreadableCheckpoint."""
        file = folder / FILE
        if not file.is_file():
            raise UnreadableCheckpoint(f"{folder} holds no {FILE}.")
        content = read_json(file)
        check_unigram(content, file)
        check_added(content, file)
        settings = read_tokenizer_settings(folder)
        end, pad = special_token(settings, "eos_token", END), special_token(settings, "pad_token", PAD)
        try:
            read = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:
            raise UnreadableCheckpoint(
                f"The tokenizer in {folder} cannot be read: {cut(first_line(error))}"
            ) from error
        pieces = bare(read, folder, (end, pad))
        maps = maps_of_characters(content)
        # The reference takes the map and the pieces from a file, and splits texts in its own way.
        pieces.normalizer = normalizers.Precompiled(maps[0]) if maps else None
        pieces.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement=WORD_START)]
        )
        vocabulary = pieces.get_vocab()
        return cls(
            size=1 + max(vocabulary.values()),
            end_id=vocabulary[end],
            pad_id=vocabulary[pad],
            pieces=pieces,
        )

    def tokens(self, prompt: str, *, length: int) -> PlainTokens:
        """Return `prompt` as `length` ids with the end; of a longer one the end follows what fits."""
        prompt = prompt.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
        encoding, room = self.pieces.encode(prompt, add_special_tokens=False), length - 1
        kept = encoding.ids[:room]
        ids = np.full(length, self.pad_id, np.int32)
        ids[: len(kept) + 1] = [*kept, self.end_id]
        cut = prompt[encoding.offsets[room][0] :] if len(encoding.ids) > room else ""
        return PlainTokens(ids=ids, count=len(encoding.ids), limit=room, cut=cut)


def check_unigram(content: dict[str, Any], file: Path) -> None:
    """Raise UnreadableCheckpoint unless the content of a tokenizer.json is of T5's kind.

    Such a file is a small program: others could replace a letter by millions.
    """
    unknown = [
        name
        for name, is_known in (
            ("model", _is_unigram(content.get("model"))),
            ("normalizer", all(map(_is_known_normalizer, steps_of(content, "normalizer")))),
            ("pre_tokenizer", all(map(_splits_as_t5, steps_of(content, "pre_tokenizer")))),
        )
        if not is_known
    ]
    if unknown:
        raise UnreadableCheckpoint(f"{file} is no tokenizer of T5's kind, by its {unknown[0]}.")


USUAL = frozenset({"type", "unk_id", "vocab"})
"""The keys of a model; any other would be a choice by chance, or of bytes in place of unknown pieces."""


def _is_unigram(model: Any) -> bool:
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), list):
        return False
    others = [value for key, value in model.items() if key not in USUAL]
    pieces = [piece[0] if isinstance(piece, list) and piece else None for piece in model["vocab"]]
    return (
        model.get("type", "Unigram") == "Unigram"
        and model.get("unk_id") is not None  # texts with an unknown letter would have no ids
        and all(isinstance(piece, str) and len(piece) <= LONGEST_PIECE for piece in pieces)
        and not any(others)
    )


def _splits_as_t5(step: Any) -> bool:
    if not isinstance(step, dict):
        return False
    joins = step.get("type") == "Metaspace" and step.get("replacement") == WORD_START
    return joins or step.get("type") == "WhitespaceSplit"


OF_BLANKS: tuple[dict[str, Any], ...] = (
    {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": WORD_START},
)
"""What published files do with blanks after the map; splitting at them makes the same of a text."""


def _is_known_normalizer(step: Any) -> bool:
    """Whether a normalizer is one of blanks, or a map of characters, none of which becomes long."""
    if step in OF_BLANKS:
        return True
    content = _map_in(step)
    if content is None:
        return False
    size = int.from_bytes(content[:4], "little")
    tree, replacements = content[4 : 4 + size], content[4 + size :]
    if len(tree) != size or size == 0 or size % 4 or not replacements.endswith(b"\0"):
        return False
    longest = max(map(len, replacements.split(b"\0")))
    return (
        longest <= LONGEST_REPLACEMENT
        and _is_text(replacements)
        and _stays_within(np.frombuffer(tree, "<u4"), np.frombuffer(replacements, np.uint8))
    )


def maps_of_characters(content: dict[str, Any]) -> list[bytes]:
    """Return SentencePiece's maps of characters in the content of a tokenizer.json.

    A map is the size of a tree in bytes, the tree, and the replacements with a zero after each.
    """
    return [found for step in steps_of(content, "normalizer") if (found := _map_in(step)) is not None]


def _map_in(step: Any) -> bytes | None:
    if not isinstance(step, dict) or step.get("type") != "Precompiled":
        return None
    try:
        return base64.b64decode(step.get("precompiled_charsmap") or "", validate=True)
    except (TypeError, ValueError):
        return None


def _is_text(replacements: bytes) -> bool:
    try:
        replacements.decode()
    except UnicodeDecodeError:
        return False
    return True


VALUE = np.uint32(2**31)
"""The bit of a tree's units that are places of replacements."""
LABEL = 255


def _stays_within(tree: npt.NDArray[np.uint32], replacements: npt.NDArray[np.uint8]) -> bool:
    """Whether all steps in a tree lead into it, and all its values to the first bytes of characters.

    The library does not check them. From a unit the place of the next is its own, changed by the bits of an
    offset, then by those of a byte.
    """
    is_value = tree >= VALUE
    offsets = (tree >> 10) << ((tree & 512) >> 6)
    farthest = (np.arange(len(tree), dtype=np.uint32) ^ offsets) | LABEL
    places = tree[is_value] - VALUE
    leads_on = (farthest[~is_value] < len(tree)).all() and (places < len(replacements)).all()
    return bool(leads_on and (replacements[places] & 0xC0 != 0x80).all())
