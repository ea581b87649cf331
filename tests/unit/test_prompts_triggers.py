"""A name of an embedding in a prompt becomes its vectors, in order and together."""

from __future__ import annotations

import pytest
from checkpoints import make_tiny_checkpoint

from sdjax_engine.prompts import Tokenizer, Tokens, Triggers, read_prompt

FIRST = 10_000
TRIGGERS = Triggers.of({"cat": range(2), "Bad-Hands": range(2, 3), "cat-2": range(3, 6)}, first=FIRST)
CAT, HANDS, CAT_2 = [FIRST, FIRST + 1], [FIRST + 2], [FIRST + 3, FIRST + 4, FIRST + 5]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint")) / "tokenizer")


def read(tokenizer: Tokenizer, written: str, *, chunks: int = 1) -> Tokens:
    return tokenizer.tokens(read_prompt(written), max_chunks=chunks, triggers=TRIGGERS)


@pytest.mark.parametrize(
    ("written", "vectors"),
    [
        ("a cat, red", CAT),
        ("CAT", CAT),
        ("(cat:1.2)cat", CAT + CAT),
        ("a bad-hands (Cat-2)", HANDS + CAT_2),
        ("cat-2x cat.", CAT + CAT),
        ("cats, a cat_2, oddcat, bad hands", []),
    ],
)
def test_a_name_counts_as_a_whole_word_in_any_case(
    written: str, vectors: list[int], tokenizer: Tokenizer
) -> None:
    assert [each for each in read(tokenizer, written).ids[0].tolist() if each >= FIRST] == vectors


def test_the_words_around_a_name_are_read_as_alone_and_vectors_have_the_weight_and_count(
    tokenizer: Tokenizer,
) -> None:
    tokens = read(tokenizer, "a (red cat-2:1.5) star")
    before, after = (tokenizer.encode(text).tolist() for text in ("a red", "star"))
    words, rest = before[1 : before.index(tokenizer.end_id)], after[1 : after.index(tokenizer.end_id)]
    assert tokens.count == len(words) + 3 + len(rest)
    assert tokens.ids[0, : tokens.count + 2].tolist() == [
        *(tokenizer.start_id, *words, *CAT_2, *rest, tokenizer.end_id)
    ]
    weighted = len(words)  # "a" and the start are before, "red" is one of the words
    assert tokens.weights[0, weighted : weighted + 4].tolist() == pytest.approx([1.5] * 4)


@pytest.mark.parametrize("comma", ["", ", "])
def test_an_embedding_is_never_divided_over_two_chunks(comma: str, tokenizer: Tokenizer) -> None:
    for stars in range(66, 77):
        tokens = read(tokenizer, "star " * 10 + comma + "star " * (stars - 10) + "cat-2 star", chunks=3)
        spread = [[each for each in chunk if each >= FIRST] for chunk in tokens.ids.tolist()]
        assert sorted(spread) == sorted([CAT_2, *[[]] * (len(spread) - 1)])


def test_an_embedding_that_does_not_fit_is_cut_whole(tokenizer: Tokenizer) -> None:
    tokens = read(tokenizer, "star " * 73 + "Cat-2 star")
    assert not (tokens.ids >= FIRST).any()
    assert tokens.cut == "Cat-2 star"
    assert tokens.count == 77
    assert tokens.limit == tokenizer.room


def test_names_are_taken_out_of_the_words_that_may_be_unknown() -> None:
    assert TRIGGERS.without_names("a CAT and oddcat").split() == ["a", "and", "oddcat"]
