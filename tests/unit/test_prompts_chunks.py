"""Long prompts in chunks, their weights, and the cut end."""

from __future__ import annotations

import dataclasses

import pytest
from checkpoints import make_tiny_checkpoint
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sdjax_engine.prompts import Tokenizer, Tokens, read_prompt, tokens_of_each


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint")) / "tokenizer")


def words_of(tokens: Tokens, tokenizer: Tokenizer) -> list[str]:
    """The text of each chunk, without its start, end and padding."""
    return [
        tokenizer.bpe.decode(chunk[1 : chunk[1:].index(tokenizer.end_id) + 1]).replace("</w>", " ").strip()
        for chunk in tokens.ids.tolist()
    ]


def test_encoders_whose_tokenizers_need_different_numbers_of_chunks_get_as_many(tokenizer: Tokenizer) -> None:
    """The shorter one has empty chunks, as a BREAK at the end of its text would make."""
    short = dataclasses.replace(tokenizer, length=12)
    long = dataclasses.replace(tokenizer, length=22)
    prompt = read_prompt("a (red:1.5) circle " * 5)
    first, second = tokens_of_each([short, long], prompt, max_chunks=3)
    assert first.ids.shape == first.weights.shape == (2, 12)
    assert second.ids.shape == second.weights.shape == (2, 22)
    assert second.ids[1].tolist() == long.encode("").tolist()
    alone = long.tokens(prompt, max_chunks=3)
    assert second.ids[:1].tolist() == alone.ids.tolist()
    assert (second.count, second.limit, second.cut) == (alone.count, alone.limit, alone.cut)


def test_each_token_of_a_piece_has_its_weight(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.tokens(read_prompt("a (red circle:1.5) on [white]"), max_chunks=1)

    assert tokens.ids.tolist() == [tokenizer.encode("a red circle on white").tolist()]
    assert tokens.weights[0, :8] == pytest.approx([1, 1, 1.5, 1.5, 1, 1 / 1.1, 1, 1])
    assert tokens.count == 5


def test_full_width_brackets_are_brackets(tokenizer: Tokenizer) -> None:
    wide, narrow = (
        tokenizer.tokens(read_prompt(text), max_chunks=1)
        for text in ("（red：１．３） star", "(red:1.3) star")
    )

    assert wide.ids.tolist() == narrow.ids.tolist()
    assert wide.weights.tolist() == narrow.weights.tolist()


def test_tokens_over_the_length_go_into_the_next_chunk(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.tokens(read_prompt("red " * 75 + "circle " * 75 + "blue"), max_chunks=3)

    assert words_of(tokens, tokenizer) == ["red " * 74 + "red", "circle " * 74 + "circle", "blue"]
    assert (tokens.count, tokens.limit, tokens.cut) == (151, 225, "")


def test_a_chunk_ends_behind_a_comma_where_one_is_near(tokenizer: Tokenizer) -> None:
    near = tokenizer.tokens(read_prompt("red " * 55 + ", " + "blue " * 30), max_chunks=2)
    far = tokenizer.tokens(read_prompt("red " * 54 + ", " + "blue " * 30), max_chunks=2)
    next_one = tokenizer.tokens(read_prompt("red " * 70 + ", " + "blue " * 4 + ", red"), max_chunks=2)

    assert words_of(near, tokenizer)[1] == "blue " * 29 + "blue"
    assert near.limit == 150 - 19
    assert words_of(far, tokenizer)[1] == "blue " * 9 + "blue"
    assert words_of(next_one, tokenizer)[1] == ", red"


def test_break_begins_a_chunk_as_long_as_there_are_any(tokenizer: Tokenizer) -> None:
    text = "red BREAK (circle BREAK blue)"

    assert words_of(tokenizer.tokens(read_prompt(text), max_chunks=3), tokenizer) == ["red", "circle", "blue"]
    assert words_of(tokenizer.tokens(read_prompt(text), max_chunks=2), tokenizer) == ["red", "circle blue"]
    assert words_of(tokenizer.tokens(read_prompt(text), max_chunks=1), tokenizer) == ["red circle blue"]
    assert words_of(
        tokenizer.tokens(read_prompt("BREAK a BREAK BREAK b BREAK"), max_chunks=9), tokenizer
    ) == [
        "",
        "a",
        "",
        "b",
    ]


def test_the_cut_end_is_returned_as_written(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.tokens(read_prompt("red, " * 75 + "((the BLUE star:1.2)), 그림 BREAK x"), max_chunks=2)

    assert tokens.cut == "((the BLUE star:1.2)), 그림 BREAK x"
    assert tokens.count > tokens.limit == 150


def test_a_break_reduces_the_limit(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.tokens(read_prompt("red BREAK " + "blue " * 75 + "circle"), max_chunks=2)

    assert (tokens.count, tokens.limit, tokens.cut) == (77, 76, "circle")


def test_a_prompt_may_name_the_end_of_a_text(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.tokens(read_prompt("<|endoftext|>"), max_chunks=1)
    assert tokens.ids[0, :3].tolist() == [tokenizer.start_id, tokenizer.end_id, tokenizer.end_id]
    assert (tokens.count, tokens.cut) == (1, "")


def test_any_text_is_either_in_the_chunks_or_cut(tokenizer: Tokenizer) -> None:
    parts = st.sampled_from([*"()[]\\:., ", "\n", " BREAK ", "red ", "(red:1.3)"]) | st.text(
        st.characters(), max_size=20
    )
    syntax = st.lists(parts, max_size=200).map("".join)

    @settings(max_examples=100)
    @given(syntax, st.integers(1, 3))
    def check(text: str, max_chunks: int) -> None:
        prompt = read_prompt(text)
        assume(not any("<|endoftext|>" in piece.text for piece in prompt.pieces))  # its id ends what is kept
        tokens = tokenizer.tokens(prompt, max_chunks=max_chunks)
        kept = sum(chunk.index(tokenizer.end_id, 1) - 1 for chunk in tokens.ids.tolist())

        assert 1 <= len(tokens.ids) <= max_chunks
        assert tokens.ids.shape == tokens.weights.shape == (len(tokens.ids), 77)
        assert (tokens.cut != "") == (tokens.count > kept) == (tokens.count > tokens.limit)
        assert kept == min(tokens.count, tokens.limit)

    check()
