"""Where a term is found and where it is not, by lists/cases.toml, and what a list of terms returns."""

import pytest
from test_lists import read as read_list

from bot.moderation import Terms, find_all, matches, read

CASES = read_list("cases")


@pytest.mark.parametrize("subject", CASES)
def test_a_term_is_found_alone_and_among_other_terms_and_words(subject: str) -> None:
    cases = CASES[subject]["found"]
    missed = [
        case
        for case in cases
        if not matches(case[0], [case[1]])
        or find_all(f"{case[0]}, oil painting", ["zebra", case[1]]) != [case[1]]
    ]
    assert missed == []


@pytest.mark.parametrize("subject", CASES)
def test_a_term_is_not_found_in_other_words(subject: str) -> None:
    assert [case for case in CASES[subject]["passed"] if find_all(case[0], ["zebra", case[1]])] == []


def test_terms_are_named_in_the_order_of_the_list_as_they_are_written() -> None:
    assert find_all("b l o o d, g0re, 裸 體", ["裸体", "gore", "x", "blood"]) == ["裸体", "gore", "blood"]
    assert find_all("bl00d", ["  BLOOD "]) == ["  BLOOD "]
    assert find_all("والدم", ["دم", "الدم"]) == ["دم", "الدم"]


@pytest.mark.parametrize("terms", [[], [""], ["  ", "\u200b"]])
def test_an_empty_list_matches_nothing(terms: list[str]) -> None:
    assert not matches("anything at all", terms)
    assert not matches("", terms)


def test_readings_serve_many_lists() -> None:
    readings = read("a nud3 with a g u n")
    assert Terms(["nude"]).matches(readings)
    assert Terms(["lake", "gun"]).find_all(readings) == ["gun"]
    assert Terms(["lake"]).find_all(readings) == []


@pytest.mark.parametrize("spelling", ["nude", "ոսԁе", "ｎｕｄｅ", "nu\u200bde", "nuuuude", "nude를"])
def test_words_anywhere_in_a_long_text_are_found(spelling: str) -> None:
    noise = " ".join(f"q{number}w,x" for number in range(2_000))
    assert find_all(f"{noise} {spelling} {noise}", ["nude", "섹스"]) == ["nude"]


@pytest.mark.parametrize("hidden", ["n.u.d.e", "n u d e", "nud3", "n|u|d|e", "ㄴㅜㄷㅡ", "누 드"])
def test_hidden_spellings_are_found_at_both_ends_of_a_long_text_and_anywhere_in_one_that_can_be_sent(
    hidden: str,
) -> None:
    noise = " ".join(f"q{number}w,x" for number in range(2_000))
    for text in (f"{hidden} {noise}", f"{noise} red {hidden}", f"{noise[:900]} red {hidden} {noise[:900]}"):
        assert find_all(text, ["nude", "누드"]) != []


@pytest.mark.parametrize("before", range(9))
def test_a_long_text_is_cut_between_words(before: int) -> None:
    assert (
        find_all("x" * before + " assassin" * 500 + " embassy" * 500, ["ass", "sin", "assa", "bassy"]) == []
    )


def test_many_chinese_terms_are_found_as_each_alone() -> None:
    characters = [chr(code) for code in range(0x4E00, 0x4E00 + 40)]
    terms = [first + second for first in characters for second in characters] + ["九岁", "1中"]
    text = "，".join((*terms[:-2:22], "".join(characters), "九 岁"))
    found = Terms(terms).find_all(text)
    assert len(found) > 60
    assert found == [term for term in terms if Terms([term]).matches(read(text))]


def test_letters_of_a_newer_unicode_than_pythons_are_read_too() -> None:
    outlined = "".join(chr(0x1CCD6 + ord(letter) - ord("a")) for letter in "nude")  # of Unicode 16
    assert find_all(f"a {outlined} woman", ["nude"]) == ["nude"]
