"""Prompts to ids without the reference at hand."""

from __future__ import annotations

import pytest
from checkpoints import make_tiny_checkpoint

from sdjax_engine.prompts import Tokenizer, clean


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint")) / "tokenizer")


@pytest.mark.parametrize("text", ["그림을 그려줘", "ارسم لي صورة", "🎨", "红色的圆"])
def test_any_language_has_ids_of_its_own(text: str, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(text)[1:].tolist()

    assert ids.index(tokenizer.end_id) >= len(text)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("  a red\n circle ", "a red circle"),
        ("cafÃ©", "café"),
        ("red &amp;amp; blue", "red & blue"),
        ("a “red” circle", 'a "red" circle'),
    ],
)
def test_cleaning_repairs_damaged_text(written: str, meant: str, tokenizer: Tokenizer) -> None:
    assert tokenizer.encode(written).tolist() == tokenizer.encode(meant).tolist()


def test_nothing_is_cut_from_a_prompt_that_fits(tokenizer: Tokenizer) -> None:
    assert tokenizer.cut("red " * 75) == ""


def test_cut_is_the_exact_end_that_the_ids_leave_out(tokenizer: Tokenizer) -> None:
    text = "Red " * 75 + "the BLUE star, 그림"

    assert tokenizer.cut(text) == "the BLUE star, 그림"
    assert tokenizer.encode(text).tolist() == tokenizer.encode("red " * 75).tolist()


def test_clean_leaves_a_clean_prompt_alone() -> None:
    assert clean("(red:1.2) circle <lora>, 빨강") == "(red:1.2) circle <lora>, 빨강"
