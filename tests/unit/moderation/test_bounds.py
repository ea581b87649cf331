"""Long texts: hidden spellings are looked for within bounds, words everywhere."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.moderation import Terms, find_all, read
from bot.moderation.bounds import LONGEST_SENT, beginning_and_end, bound_of, bounded
from bot.moderation.scripts import squeeze

TERMS = ("nude", "섹스", "자살")
HIDDEN = ("n.u.d.e", "n u d e", "nud3", "n|u|d|e", "ㅅㅔㄱㅅㅡ", "ㅈㅏ살", "자 살", "n u de")
NOISE = " ".join(f"q{number}w,x" for number in range(2_000))
PROSE = "the quiet harbour in the morning with fishing boats, gulls and an old lighthouse on the hill. "


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_text_that_a_person_can_send_is_read_in_every_way_anywhere(hidden: str) -> None:
    noise = NOISE[: (LONGEST_SENT - len(hidden)) // 2 - 1].rpartition(" ")[0]
    text = f"{noise} {hidden} {noise}"
    assert len(text) <= LONGEST_SENT
    assert find_all(text, TERMS) != []


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("place", ["beginning", "end"])
def test_hidden_spellings_at_both_ends_of_a_long_text_of_signs_are_found(hidden: str, place: str) -> None:
    assert len(NOISE) > 10_000
    assert find_all(f"{hidden} {NOISE}" if place == "beginning" else f"{NOISE} {hidden}", TERMS) != []


@pytest.mark.parametrize("spelling", ["nude", "ոսԁе", "ｎｕｄｅ", "nu\u200bde", "nuuuude", "섹스를"])
def test_words_within_a_long_text_of_signs_are_found(spelling: str) -> None:
    assert find_all(f"{NOISE} {spelling} {NOISE}", TERMS) != []


@pytest.mark.parametrize("hidden", HIDDEN)
def test_hidden_spellings_anywhere_in_long_prose_are_found(hidden: str) -> None:
    text = f"{15 * PROSE}{hidden}, {15 * PROSE}"
    assert len(text) > LONGEST_SENT
    assert find_all(text, TERMS) != []


def test_only_whole_words_of_a_long_text_are_looked_at() -> None:
    text = NOISE.replace("w,xyz", "nude")  # each word has a digit before, so that none is the term
    near = beginning_and_end(text, bound_of(text))
    assert len(near) <= 601
    assert set(near.split()) <= set(text.split())


def test_bounds_keep_the_first_and_the_last_pieces() -> None:
    pieces = [f"{number:03}" for number in range(1_000)]
    assert bounded(pieces, None) == bounded(pieces, 3_000) == pieces
    kept = bounded(pieces, 100)
    assert kept[0] == "000"
    assert kept[-1] == "999"
    assert set(kept) < set(pieces)
    assert 60 < sum(map(len, kept)) <= 100


def test_many_chinese_terms_are_found_as_each_alone() -> None:
    characters = [chr(code) for code in range(0x4E00, 0x4E00 + 40)]
    terms = [first + second for first in characters for second in characters[::9]] + ["九岁", "1中"]
    text = "，".join((*terms[:-2:2], "".join(characters), "九 岁"))
    found = Terms(terms).find_all(text)
    assert len(found) > 60
    assert found == [term for term in terms if Terms([term]).matches(read(text))]


@given(st.text(alphabet="ab\n가", min_size=150, max_size=300))
def test_long_texts_are_squeezed_as_short_ones(text: str) -> None:
    assert squeeze(text) == re.sub(r"(.)(?=\1)", "", text)


def test_bounds_cut_between_pieces_and_not_at_their_spaces() -> None:
    assert bounded(["ab cd", "ef gh", "ij kl", "mn op"], 12) == ["ab cd", "mn op"]


def test_a_text_that_a_person_can_send_has_no_bound() -> None:
    assert bound_of(LONGEST_SENT * "a") is None
    assert bound_of((LONGEST_SENT + 1) * "a") == 600


def test_half_of_the_bound_is_the_beginning_and_half_the_end() -> None:
    first, last = beginning_and_end(NOISE, 600).split("\n")
    assert NOISE.startswith(first)
    assert NOISE.endswith(last)
    assert 280 < len(first) <= 300
    assert 280 < len(last) <= 300
    assert beginning_and_end(NOISE, len(NOISE)) == NOISE


def test_a_text_without_spaces_is_cut_at_its_commas_and_one_without_either_has_no_whole_word() -> None:
    text = NOISE.replace(" ", ",")
    first, last = beginning_and_end(text, 600).split("\n")
    assert text.startswith(first)
    assert text.endswith(last)
    assert (first[-1], last[0]) == (",", ",")
    assert beginning_and_end(1_000 * "a가", 600) == "\n"


@pytest.mark.parametrize(("changes", "kept"), [(1_500, True), (1_501, False)])
def test_a_text_of_few_changes_between_scripts_is_read_whole(changes: int, *, kept: bool) -> None:
    text = (1_000 * "a가")[: changes + 1]
    assert (beginning_and_end(text, 600) == text) is kept
