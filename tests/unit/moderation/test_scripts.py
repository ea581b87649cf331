"""Characters by their codes and kinds, and words by script."""

import numpy as np
import pytest

from bot.moderation import scripts
from bot.moderation.scripts import (
    codes_of,
    has_cjk,
    has_digit,
    is_arabic,
    is_hangul,
    is_latin,
    kinds_of,
    numbered_words_of,
    runs,
    squeeze,
    text_of,
    within,
    words_of,
)


@pytest.mark.parametrize("text", ["", "a star", "별 ★ نجمة", "\U0001f600\U00020000", "half a pair: \ud83d"])
def test_a_text_and_its_codes_are_equal(text: str) -> None:
    assert codes_of(text).tolist() == list(map(ord, text))
    assert text_of(codes_of(text)) == text


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", []),
        ("...", []),
        ("###", [(0, 2)]),
        ("#.##.", [(0, 0), (2, 3)]),
        (".#..#", [(1, 1), (4, 4)]),
    ],
)
def test_runs_of_flags_have_a_first_and_a_last_place(flags: str, expected: list[tuple[int, int]]) -> None:
    first, last = runs(np.array([flag == "#" for flag in flags], np.bool_))
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == expected


@pytest.mark.parametrize("flags", ["", "...", "###", "#.##.", ".#..#", "#." * 200])
def test_the_places_within_runs_are_those_of_the_flags(flags: str) -> None:
    wanted = np.array([flag == "#" for flag in flags], np.bool_)
    assert within(len(flags), *runs(wanted)).tolist() == wanted.tolist()


@pytest.mark.parametrize("around", ["", "-+" * 100])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("book", "bok"),
        ("aaab", "ab"),
        ("abbb", "ab"),
        ("ab ab", "ab ab"),
        ("a\n\n\nb", "a\n\n\nb"),
        ("별별★★", "별★"),
    ],
)
def test_repeated_characters_become_one_but_for_line_breaks(around: str, text: str, expected: str) -> None:
    assert squeeze(around + text) == around + expected
    assert squeeze(text + around) == expected + around


KINDS = {
    "ALNUM": "aZéя별별나月キ7٣",
    "DECIMAL": "07٣৩",
    "HAN": "月人\u3041\u30ff\u31f0\u3400\u4dbf\u9fff\U00020000\U0003ffff",
    "KOREAN": "별가힣\u1100\u11ff",
    "ARAB": "نجم\u0620\u064a\u066e\u06d3\u06d5\u06fa\u06ff",
    "LATIN": "amz",
    "LOOSE": "\u1100\u11ff\u3131\u318e\uffa1\uffdc",
    "LIKE_VOWEL": "lI1|丨r",
    "CLAUSE_END": ",;:!?。、\n",
}
NOT = {
    "ALNUM": "_ .-!★",
    "DECIMAL": "a²月",
    "HAN": "a가\u303f\u3100\u4dc0\ua000\U00040000",
    "KOREAN": "a月\u10ff\u1200\uabff\ud7a4",
    "ARAB": "a\u061f\u064b\u06d4\u0700",
    "LATIN": "AZé`{",
    "LOOSE": "가\u3130\u318f\uffa0\uffdd",
    "LIKE_VOWEL": "LiR",
    "CLAUSE_END": ". a",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_character_has_its_kinds(kind: str) -> None:
    bit = getattr(scripts, kind)
    assert ((kinds_of(codes_of(KINDS[kind])) & bit) == bit).all()
    assert not (kinds_of(codes_of(NOT[kind])) & bit).any()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("A red-hot star's 3 rays", ["A", "red", "hot", "star", "s", "rays"]),
        ("15yo", ["yo"]),
        ("été_à", ["été", "à"]),
        ("нет, да", ["нет", "да"]),
        ("빨간 별", ["빨간", "별"]),
        ("빨간15별", ["빨간", "별"]),
        ("月 a 人b", ["a", "b"]),
        ("nude를 그려", ["nude", "를", "그려"]),
        ("그nude를", ["그", "nude", "를"]),
        ("وnude", ["و", "nude"]),
        ("nudeو nude", ["nude", "و", "nude"]),
        ("별نجم", ["별نجم"]),
        ("별نجمa", ["별", "نجم", "a"]),
        ("가\u1100b", ["가\u1100", "b"]),
        ("가 월3일a", ["가", "월", "일", "a"]),
        ("월éb별", ["월", "éb", "별"]),
    ],
)
def test_words_end_where_the_script_changes_beside_latin_letters(text: str, expected: list[str]) -> None:
    assert words_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("15yo, 69-a", ["15yo", "69", "a"]),
        ("15살, ٦٩", ["15살", "٦٩"]),
        ("月15人a_b", ["15", "a", "b"]),
        ("été nude를", ["été", "nude를"]),
    ],
)
def test_numbered_words_keep_their_digits(text: str, expected: list[str]) -> None:
    assert numbered_words_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", False), ("ab", False), ("é별", False), ("a月", True), ("カ", True), ("・", False)],
)
def test_han_and_kana_are_found(text: str, *, expected: bool) -> None:
    assert has_cjk(text) is expected


@pytest.mark.parametrize(("text", "expected"), [("", False), ("ab", False), ("a7b", True), ("٣", True)])
def test_digits_are_found(text: str, *, expected: bool) -> None:
    assert has_digit(text) is expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("", [False, False, False]),
        ("nude", [False, False, True]),
        ("Nude", [False, False, True]),
        ("nude2", [False, False, False]),
        ("nudé", [False, False, False]),
        ("ab가", [True, False, False]),
        ("ab힣", [True, False, False]),
        ("ab\ud7a4", [False, False, False]),
        ("ab\u1100", [True, False, False]),
        ("ab\u11ff", [True, False, False]),
        ("ab\u10ff", [False, False, False]),
        ("ab\u1200", [False, False, False]),
        ("별a", [False, False, False]),
        ("ab\u0620", [False, True, False]),
        ("ab\u06ff", [False, True, False]),
        ("ab\u061f", [False, False, False]),
        ("ab\u0700", [False, False, False]),
        ("نa", [False, False, False]),
    ],
)
def test_the_script_of_a_word_is_that_of_its_end_or_latin_as_a_whole(word: str, expected: list[bool]) -> None:
    assert [is_hangul(word), is_arabic(word), is_latin(word)] == expected
