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

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import read_json
from sdjax_engine.prompts.tokenizer_files import bare, read_tokenizer_settings, special_token, steps_of

END, PAD = "</s>", "<pad>"
FILE = "tokenizer.json"
LONGEST_REPLACEMENT = 64
"""Bytes that stand for one character; U+FDFA, an Arabic sentence, has 33."""


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
        check_unigram(file)
        settings = read_tokenizer_settings(folder)
        end, pad = special_token(settings, "eos_token", END), special_token(settings, "pad_token", PAD)
        try:
            read = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:
            raise UnreadableCheckpoint(f"The tokenizer in {folder} cannot be read: {error}.") from error
        pieces = bare(read, folder, (end, pad))
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


def check_unigram(file: Path) -> None:
    """Raise UnreadableCheckpoint unless a tokenizer.json is of T5's kind.

    Such a file is a small program: others could replace a letter by millions.
    """
    content = read_json(file)
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
    return model.get("type", "Unigram") == "Unigram" and not any(others)


def _splits_as_t5(step: Any) -> bool:
    if not isinstance(step, dict):
        return False
    mark = step.get("replacement")
    joins = step.get("type") == "Metaspace" and isinstance(mark, str) and len(mark) == 1
    return joins or step.get("type") == "WhitespaceSplit"


def _is_known_normalizer(step: Any) -> bool:
    """Whether a normalizer is a map of characters, SentencePiece's, none of which becomes long.

    The map is the size of a tree in bytes, the tree, and the replacements with a zero after each.
    """
    if not isinstance(step, dict) or step.get("type") != "Precompiled":
        return False
    try:
        content = base64.b64decode(step.get("precompiled_charsmap") or "", validate=True)
    except (TypeError, ValueError):
        return False
    size = int.from_bytes(content[:4], "little")
    tree, replacements = content[4 : 4 + size], content[4 + size :]
    if len(tree) != size or size == 0 or size % 4 or not replacements.endswith(b"\0"):
        return False
    longest = max(map(len, replacements.split(b"\0")))
    return longest <= LONGEST_REPLACEMENT and _stays_within(np.frombuffer(tree, "<u4"), len(replacements))


VALUE = np.uint32(2**31)
"""The bit of a tree's units that are places of replacements."""
LABEL = 255


def _stays_within(tree: npt.NDArray[np.uint32], end: int) -> bool:
    """Whether all steps in a tree lead into it, and all its values to replacements before `end`.

    The library does not check them. From a unit the place of the next is its own, changed by the bits of an
    offset, then by those of a byte.
    """
    is_value = tree >= VALUE
    offsets = (tree >> 10) << ((tree & 512) >> 6)
    farthest = (np.arange(len(tree), dtype=np.uint32) ^ offsets) | LABEL
    return bool((farthest[~is_value] < len(tree)).all() and (tree[is_value] - VALUE < end).all())
