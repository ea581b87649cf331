"""The grammar of emphasis: the meaning of each bracket, for every text."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sdjax_engine.prompts import MAX_WEIGHT, Piece, parse_emphasis

SYNTAX = st.text(st.sampled_from(list("()[]\\:.+-123 ab,\n٫١")) | st.characters(), max_size=60)


def meant(text: str) -> list[tuple[str, float]]:
    """The pieces with their weights, to the precision in which people write these; BREAK as its own piece."""
    pieces = []
    for piece in parse_emphasis(text):
        pieces += [("BREAK", 0.0)] if piece.breaks else []
        pieces += [(piece.text, round(piece.weight, 6))] if piece.text else []
    return pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("a red circle, 3 stars!", [("a red circle, 3 stars!", 1)]),
        ("an (important) word", [("an ", 1), ("important", 1.1), (" word", 1)]),
        ("an [unimportant] word", [("an ", 1), ("unimportant", 0.909091), (" word", 1)]),
        ("((two words)) x", [("two words", 1.21), (" x", 1)]),
        ("[[[x]]]", [("x", 0.751315)]),
        ("(a [b] c)", [("a ", 1.1), ("b", 1.0), (" c", 1.1)]),
        ("(red:1.3), blue", [("red", 1.3), (", blue", 1)]),
        ("( red star : 1.3 )", [(" red star ", 1.3)]),
        ("(a:.5)(b:2.)(c:+3)(d:-1)", [("a", 0.5), ("b", 2), ("c", 3), ("d", -1)]),
        ("((a:1.5) b:2)", [("a", 3), (" b", 2)]),
        ("(a)(b)", [("ab", 1.1)]),
        ("(كلمة:١٫٣)", [("كلمة", 1.3)]),
        ("a (((b:1.3)) [c]", [("a ", 1), ("b", 1.573), (" ", 1.1), ("c", 1.0)]),
    ],
)
def test_brackets_give_weights(text: str, pieces: list[tuple[str, float]]) -> None:
    assert meant(text) == pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("(to the end", [("to the end", 1.1)]),
        ("[to the (end", [("to the ", 0.909091), ("end", 1.0)]),
        ("never opened) ]:1.3)", [("never opened) ]:1.3)", 1)]),
        ("(a [b) c] d", [("a ", 1.1), ("b", 1.0), (" c", 0.909091), (" d", 1)]),
        ("()[](:1.5)", []),
    ],
)
def test_unbalanced_brackets_reach_to_the_end_or_are_text(text: str, pieces: list[tuple[str, float]]) -> None:
    assert meant(text) == pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (r"\(plain\) \[too\]", [("(plain) [too]", 1)]),
        (r"(smile :\))", [("smile :)", 1.1)]),
        (r"\\(word)", [("\\", 1), ("word", 1.1)]),
        (r"\\\(word\\\)", [(r"\(word\)", 1)]),
        (r"C:\pictures \\ \n", [(r"C:\pictures \\ \n", 1)]),
    ],
)
def test_a_backslash_before_a_bracket_makes_it_text_and_is_text_elsewhere(
    text: str, pieces: list[tuple[str, float]]
) -> None:
    assert meant(text) == pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("(x:9999)", [("x", MAX_WEIGHT)]),
        ("(x:-9999)", [("x", -MAX_WEIGHT)]),
        ("(" * 400 + "x" + ":10)" * 400, [("x", MAX_WEIGHT)]),
        (f"((x:{'9' * 400}):0)", [("x", 0)]),
        ("(x:nan)", [("x:nan", 1.1)]),
        ("(x:inf)", [("x:inf", 1.1)]),
        ("(x:1.2.3)", [("x:1.2.3", 1.1)]),
        ("(x:1,3)", [("x:1,3", 1.1)]),
        ("(x:)", [("x:", 1.1)]),
        ("[x:0.5]", [("x:0.5", 0.909091)]),
    ],
)
def test_weights_are_bounded_and_invalid_numbers_are_text(text: str, pieces: list[tuple[str, float]]) -> None:
    assert meant(text) == pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a BREAK b", [("a", 1), ("BREAK", 0), ("b", 1)]),
        ("a\nBREAK\nBREAK, b", [("a", 1), ("BREAK", 0), ("BREAK", 0), (", b", 1)]),
        ("BREAK", [("BREAK", 0)]),
        ("(a BREAK b) c", [("a", 1.1), ("BREAK", 0), ("b", 1.1), (" c", 1)]),
        ("(a)BREAK[b]", [("a", 1.1), ("BREAK", 0), ("b", 0.909091)]),
        ("a break, BREAKs, aBREAK", [("a break, BREAKs, aBREAK", 1)]),
    ],
)
def test_break_stands_between_words_and_in_capitals(text: str, pieces: list[tuple[str, float]]) -> None:
    assert meant(text) == pieces


@given(SYNTAX)
@example("(" * 1000 + "\\")
def test_any_text_has_pieces_whose_characters_stand_in_it_in_order(text: str) -> None:
    pieces = parse_emphasis(text)

    assert all(math.isfinite(piece.weight) and abs(piece.weight) <= MAX_WEIGHT for piece in pieces)
    assert all(len(piece.places) == len(piece.text) for piece in pieces)
    places = [place for piece in pieces for place in piece.places]
    assert places == sorted(set(places))
    assert all(0 <= place < len(text) for place in places)


@given(st.text(max_size=60))
def test_a_text_without_brackets_and_break_is_one_piece(text: str) -> None:
    plain = "".join(character for character in text.replace("BREAK", "") if character not in "()[]")

    assert parse_emphasis(plain) == ((Piece(text=plain, places=tuple(range(len(plain)))),) if plain else ())


def test_characters_behind_opening_brackets_stand_where_these_do() -> None:
    text = r"a ((b:2)) \(c"

    letters = {
        letter: place
        for piece in parse_emphasis(text)
        for letter, place in zip(piece.text, piece.places, strict=True)
    }

    assert (text[letters["b"] :], text[letters["("] :]) == (r"((b:2)) \(c", r"\(c")
