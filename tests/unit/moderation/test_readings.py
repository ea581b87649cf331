"""The ways in which a text is read."""

import pytest

from bot.moderation.readings import (
    mask,
    read,
    spaced_runs,
    spaced_syllables,
    words_in_pieces,
    words_of_runs,
)
from bot.moderation.scripts import numbered_words_of

TEXT = "A nud3 st.ar 15yo, F16 b l u e x"
PLAIN = ["a", "nud", "st", "ar", "yo", "f", "b", "l", "u", "e", "x"]
NUMBERED = ["a", "nud3", "st", "ar", "15yo", "f16", "b", "l", "u", "e", "x"]


def test_a_text_has_its_words_in_every_reading_once() -> None:
    text = read(TEXT)
    words = [*PLAIN, "bluex", "star", "nude", "isyo", "lsyo"]
    assert (text.lower, text.near) == (TEXT.lower(), TEXT.lower())
    assert (text.plain, text.numbered, text.words) == (PLAIN, NUMBERED, words)
    assert (text.lines, text.squeezed_lines) == ("".join(f"\n{word}" for word in words),) * 2
    assert (text.squeezed, text.keys) == (words, frozenset(words))
    assert text.runs == ["bluex"]
    assert text.sequences == [
        PLAIN,
        NUMBERED,
        ["a", "nud", "star", "yo", "f", "b", "l", "u", "e", "x"],
        ["a", "nude", "star", "isyo", "fig", "b", "l", "u", "e", "x"],
    ]


def test_a_text_without_signs_and_digits_has_one_sequence_of_words() -> None:
    assert read("a red star").sequences == [["a", "red", "star"]]
    assert read("a red star").runs == []


def test_repeated_letters_are_kept_beside_the_words_without_them() -> None:
    text = read("bIood 꽃이 피는 봄")
    assert text.words == ["biood", "꽃이", "봄", "blood"]
    assert text.squeezed == ["biod", "꽃이", "봄", "blod"]


def test_a_capital_i_may_be_a_small_l() -> None:
    assert read("bIood").words == ["biood", "blood"]


def test_letters_apart_are_a_run_with_their_particles() -> None:
    assert read("x를 y를").runs == ["x를y를"]


def test_a_capital_letter_with_digits_is_the_number_of_a_model() -> None:
    assert read("F1").words == ["f"]
    assert read("F16 f16 a55 A5b 5A").words == ["f", "a", "b", "ab", "ass", "asb", "sa"]


@pytest.mark.parametrize(
    ("lower", "expected"),
    [
        ("b", []),
        ("b lood", ["blood"]),
        ("bloo d", ["blood"]),
        ("(b) lood!", ["blood"]),
        ("a lood", []),
        (',.;:!?()[]{}<>"/\\*_~`|。、b lood', ["blood"]),
        ("a bl oo d x", ["abloodx", "bloodx", "ood"]),
        ("bl, oo. d!", ["blood", "ood"]),
        ("of no me x", ["mex"]),
        ("i nu de", ["inude", "nude"]),
        ("x ad nu de y", ["nudey", "xad", "dey"]),
        ("دم م ا ء", ["دمماء"]),
    ],
)
def test_words_that_spaces_split_are_joined(lower: str, expected: list[str]) -> None:
    assert words_in_pieces(lower) == expected


@pytest.mark.parametrize(
    ("lower", "expected"),
    [
        ("x", []),
        ("b l o o d", ["blood"]),
        ("b.l.o.o.d", ["blood"]),
        ("ab c d ef g h", ["cd", "gh"]),
        ("r e d   b l u e", ["redblue"]),
        ("1 2 3", ["123"]),
    ],
)
def test_single_letters_that_stand_apart_are_runs(lower: str, expected: list[str]) -> None:
    assert spaced_runs(numbered_words_of(lower)) == expected


def test_runs_are_words_also_without_an_article_and_with_digits_as_letters() -> None:
    assert words_of_runs(["nude"]) == ["nude"]
    assert words_of_runs(["anude", "inude", "ودم"]) == ["anude", "inude", "ودم", "nude", "nude", "دم"]
    assert words_of_runs(["b1d"]) == ["b1d", "bid", "bld"]
    assert words_of_runs(["ab1d", "x"]) == ["ab1d", "x", "b1d", "abid", "bid", "abld", "bld"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ""),
        ("가나", ""),
        ("가 나 다라 a 마 바", " 가 나 다라 \n 마 바  \n"),
        ("가 b 나 다", " 가  \n 나 다  \n"),
    ],
)
def test_syllables_that_stand_apart_are_a_line_for_each_run(words: str, expected: str) -> None:
    assert spaced_syllables(words.split()) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [("fuuck", "f*ck"), ("boat *x a*#e", "b*t *x *"), ("f*ck\nsh#t", "f*ck\nsh*t"), ("xxyz", "xyz")],
)
def test_vowels_and_masks_are_one_star(words: str, expected: str) -> None:
    assert mask(words) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no mask", []),
        ("F*CK (sh#t) b%d", ["b*d", "f*ck", "sh*t"]),
        ("**bold** *ab*c x* 5*", []),
        ("별 f*ck", ["f*ck"]),
        ("*(f*ck)", ["f*ck"]),
    ],
)
def test_words_with_a_star_for_a_letter_are_masked(text: str, expected: list[str]) -> None:
    assert sorted(read(text).masked) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a x, y! zz 가 '월'", ["a", "x", "y", "가", "월"]),
        ("x.y (z)", ["z"]),
        ("(" * 99 + "z", ["z"]),
        ("(" * 100 + "z", []),
    ],
)
def test_single_characters_stand_alone_without_signs_around_them(text: str, expected: list[str]) -> None:
    assert sorted(read(text).alone) == expected


def test_the_scripts_of_a_text_are_known() -> None:
    texts = [read(text) for text in ("ab", "é", "별", "دم")]
    assert [(text.has_hangul, text.has_arabic) for text in texts] == [
        (False, False),
        (False, False),
        (True, False),
        (False, True),
    ]
    assert read("가 나 b").syllables == " 가 나  \n"
    assert read("ab").syllables == ""


def test_hidden_spellings_of_a_long_text_are_read_at_its_beginning_and_end() -> None:
    middle = "red " * 3000
    text = read(f"b l o o d {middle}n.u.d.e {middle}b.o.d.y")
    assert len(text.near) < len(text.lower)
    assert text.runs == ["blood", "body"]
    assert {"blood", "body", "red"} <= set(text.words)
    assert "nude" not in text.words
    assert text.plain.count("red") == 6000


def test_numbers_in_the_middle_of_a_long_text_are_kept() -> None:
    lines = "a-b c.d " * 500
    assert "15yo" in read(f"{lines}15yo {lines}").numbered
