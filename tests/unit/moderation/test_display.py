"""Texts as people see them: HTML entities, and overrides of the direction of writing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.moderation import find_all, hard_rule
from bot.moderation.display import with_displayed

LRE, RLE, END, LRO, RLO, LRI, RLI, END_OF_ISOLATE = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2069"

SEEN = [
    ("bl&#111;od", "blood"),
    ("bl&#x6F;od", "blood"),
    ("&#98&#108&#111&#111&#100", "blood"),
    ("bl&amp;#111;od", "blood"),
    ("bl&amp;amp;#111;od", "blood"),
    ("bl&oopf;od", "bl𝕠od"),
    ("dead&nbsp;body", "dead\xa0body"),
    (f"{RLO}doolb", "blood"),
    (f"a {RLO}doolb{END} moon", "a blood moon"),
    (f"a {RLO}doolb{END_OF_ISOLATE} moon{END}", "a noom blood"),
    (f"{RLO}do{END}blo", "odblo"),
    (f"{RLO}d{RLO}oo{END}lb{END}", "bloo" + "d"),
    (f"{RLO}d{LRO}oo{END}lb", "blood"),
    (f"{RLO}{LRE}ood{END}lb", "blood"),
    (f"{RLO}{LRI}ood{END_OF_ISOLATE}lb", "blood"),
    (f"{RLO}{RLI}{RLE}ood{END_OF_ISOLATE}lb", "blood"),
    (f"{RLO}doo{END}{END}lb{RLO}", "oodlb"),
    ("&#8238;doolb", "blood"),
]


@pytest.mark.parametrize(("text", "seen"), SEEN)
def test_what_people_see_is_a_line_after_the_text(text: str, seen: str) -> None:
    first, *_, last = with_displayed(text).split("\n")
    assert (first, last) == (text, seen)


@pytest.mark.parametrize("text", ["", "red & blue", "R&D; &c. &#;", "blood", "피 \u2067دم\u2069", "a\nb"])
def test_a_text_that_people_see_as_it_is_stays_alone(text: str) -> None:
    assert with_displayed(text) == text


def test_arabic_letters_that_an_override_turns_round_are_read_from_the_right() -> None:
    assert with_displayed(f"{LRO}لفط{END}").split("\n")[-1] == "طفل"


@pytest.mark.parametrize(
    "text", ["&#98;lood", f"{RLO}doolb{END}", f"a {RLO}d o o l b", f"{LRO}مد{END}", f"{RLO}腥血"]
)
def test_terms_are_found_where_people_see_them(text: str) -> None:
    assert find_all(text, ["blood", "دم", "血腥"]) != []


def test_the_rule_that_is_always_on_reads_what_people_see() -> None:
    assert hard_rule().matches("nu&#100;e chil&#x64;")
    assert hard_rule().matches(f"{RLO}dlihc edun{END}")
    assert hard_rule().matches(f"{RLO}dikedun")


@pytest.mark.parametrize(
    "text", ["&#" + "1" * 6000, "&amp;" * 4000, RLO * 6000 + "x" * 6000, (RLO + "ab" + END) * 3000]
)
def test_long_texts_of_entities_and_controls_are_read(text: str) -> None:
    assert len(with_displayed(text)) <= 4 * len(text) + 3


@given(st.text(alphabet="abc " + LRE + RLE + END + LRO + RLO + LRI + RLI + END_OF_ISOLATE))
def test_whatever_the_controls_no_letter_is_lost(text: str) -> None:
    seen = with_displayed(text).split("\n")[-1]
    assert sorted(filter(str.isalpha, seen)) == sorted(filter(str.isalpha, text))
