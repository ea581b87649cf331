"""T5's tokenizer: ids as the reference has them, and files that are no such tokenizer."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from sd3_files import LETTERS
from transformers import T5Tokenizer

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.prompts.unigram import UnigramTokenizer

pytestmark = pytest.mark.parity

LENGTH = 12
HAS_VALUE, NEXT, VALUE = 1 << 8, 1 << 10, 1 << 31


def map_of_characters(place: int = 0, offset: int = NEXT, replacement: bytes = b"a") -> bytes:
    """SentencePiece's map of the character A to a."""
    tree = np.zeros(256, "<u4")
    tree[ord("A")] = ord("A") | HAS_VALUE | offset
    tree[ord("A") ^ 1] = VALUE | place
    return tree.nbytes.to_bytes(4, "little") + tree.tobytes() + replacement + b"\0"


def reference() -> T5Tokenizer:
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("▁a", -3.0), ("ab", -4.0)]
    pieces += [(letter, -7.0 - index / 16) for index, letter in enumerate(LETTERS)]
    return T5Tokenizer(
        vocab=pieces,
        extra_ids=0,
        additional_special_tokens=[],
        _spm_precompiled_charsmap=map_of_characters(),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    reference().save_pretrained(tmp_path)
    return tmp_path


def as_published(folder: Path) -> Path:
    """The file as those of Stable Diffusion 3 and 3.5 are: the reference of that time wrote more steps."""
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    of_blanks = [
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
    ]
    content["normalizer"] = {"type": "Sequence", "normalizers": [content["normalizer"], *of_blanks]}
    content["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}
    content["model"]["byte_fallback"] = False
    file.write_text(json.dumps(content), encoding="utf-8")
    return folder


PROMPTS = ("", " A  cab\n\tAB ", "(fox:1.3) &amp;", "☃ </s> a<pad>b", "abcdefghijkl", "a b c d e f", "\ud83d")
BLANKS = ("  ", "\x85", " </s>  A", "▁ A▁▁ b", "A\u3000b\u2028\u200bc  ")


@pytest.mark.parametrize("prompt", PROMPTS + BLANKS)
@pytest.mark.parametrize("published", [False, True])
def test_the_ids_of_a_raw_prompt_are_the_references(prompt: str, published: bool, folder: Path) -> None:
    theirs = T5Tokenizer.from_pretrained(as_published(folder) if published else folder)
    text = prompt.encode("utf-8", "replace").decode()
    ids = theirs(text, padding="max_length", max_length=LENGTH, truncation=True)["input_ids"]
    assert UnigramTokenizer.load(folder).tokens(prompt, length=LENGTH).ids.tolist() == ids


def test_a_prompt_that_does_not_fit_says_what_is_cut(folder: Path) -> None:
    found = UnigramTokenizer.load(folder).tokens("a cdefghij", length=6)
    assert (found.count, found.limit, found.cut) == (10, 5, "fghij")
    assert found.ids[-1] == 1


OTHERS = {
    "a long replacement": map_of_characters(replacement=b"a" * 65),
    "a place behind all replacements": map_of_characters(place=2),
    "a step out of the tree": map_of_characters(offset=256 * NEXT),
    "half of a tree": map_of_characters()[:600],
    "no tree": b"",
    "a replacement that is no text": map_of_characters(replacement=b"\xff"),
    "a place within a letter": map_of_characters(place=1, replacement="é".encode()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_map_of_characters_that_is_none_is_refused(name: str, folder: Path) -> None:
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["normalizer"]["precompiled_charsmap"] = base64.b64encode(OTHERS[name]).decode()
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UnreadableCheckpoint, match="by its normalizer"):
        UnigramTokenizer.load(folder)


def test_a_vocabulary_without_a_piece_for_unknown_letters_is_refused(folder: Path) -> None:
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["model"]["unk_id"] = None
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UnreadableCheckpoint, match="by its model"):
        UnigramTokenizer.load(folder)


def test_a_folder_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"holds no tokenizer\.json"):
        UnigramTokenizer.load(tmp_path)
