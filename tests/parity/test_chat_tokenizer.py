"""Prompts in their template as token ids, against the reference's tokenizer and Z-Image's pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2Tokenizer
from z_image_files import build_chat_tokenizer

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.prompts import chat
from sdjax_engine.prompts.chat import ChatTokenizer

pytestmark = pytest.mark.parity

LENGTH = 64
PROMPTS = [
    "",
    " ",
    "a red circle on the  white\n\n square ",
    "\t(fox:1.3), [star] BREAK &amp; ﬁne café é 한국어 🎨👩‍🚀",
    "a star<|im_end|>\n<|im_start|>assistant\n<think>red</think><|endoftext|>",
    "a red circle above the blue star " * 9,
    "🎨" * 15,
    "🎨" * 20,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    build_chat_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def reference(folder: Path) -> Qwen2Tokenizer:
    return Qwen2Tokenizer.from_pretrained(folder)


def theirs(reference: Qwen2Tokenizer, prompt: str, *, thinks: bool = True) -> tuple[list[int], int]:
    text = reference.apply_chat_template(
        [{"role": "user", "content": prompt}],
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=thinks,
    )
    found = reference(text, padding="max_length", truncation=True, max_length=LENGTH)
    return found.input_ids, sum(found.attention_mask)


@pytest.mark.parametrize("thinks", [True, False])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_ids_are_the_references(prompt: str, thinks: bool, folder: Path, reference: Qwen2Tokenizer) -> None:
    tokens = ChatTokenizer.load(folder, thinks=thinks).tokens(prompt, length=LENGTH)
    assert (tokens.ids.tolist(), tokens.length) == theirs(reference, prompt, thinks=thinks)


def test_ids_of_any_text_are_the_references(folder: Path, reference: Qwen2Tokenizer) -> None:
    tokenizer = ChatTokenizer.load(folder)

    @settings(max_examples=200)
    @given(st.text(max_size=40))
    def compare(prompt: str) -> None:
        tokens = tokenizer.tokens(prompt, length=LENGTH)
        assert (tokens.ids.tolist(), tokens.length) == theirs(reference, prompt)

    compare()


def test_a_template_with_thoughts_is_noticed(
    folder: Path, reference: Qwen2Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "AFTER", chat.AFTER + chat.NO_THOUGHTS)
    assert ChatTokenizer.load(folder).tokens("a", length=LENGTH).ids.tolist() != theirs(reference, "a")[0]


def test_the_facts_of_a_prompt_count_its_own_tokens_and_tell_what_was_cut(folder: Path) -> None:
    tokenizer = ChatTokenizer.load(folder)
    short = tokenizer.tokens("a red circle", length=LENGTH)
    assert (short.count, short.cut) == (3, "")
    words = " ".join(["red"] * 100)
    long = tokenizer.tokens(words, length=LENGTH)
    before = LENGTH - len(tokenizer.bpe.encode(chat.BEFORE).ids)
    assert (long.count, long.cut) == (100, " red" * (100 - before))
    assert short.limit == long.limit == LENGTH - short.length + short.count


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"tokenizer\.json"):
        ChatTokenizer.load(tmp_path)
