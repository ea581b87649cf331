"""Lists of a server: names, entries, and drawing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.errors import UserMistake
from bot.domain.expansion import read_phrase
from bot.front.recipes.wildcard import (
    MAX_ENTRIES,
    MAX_ENTRY,
    drawing,
    read_entries,
    read_few,
    wildcard_choices,
    wildcard_name,
)
from bot.store.library.wildcards import Wildcard
from bot.texts.catalogue import Texts

ENGLISH = Texts.for_locale("en")
COLOUR = Wildcard(name="Colour", entries=("red", "green", "blue"))
LISTS = [COLOUR, Wildcard(name="animal", entries=("cat",))]


def test_a_name_is_taken_with_or_without_its_underscores() -> None:
    assert wildcard_name(" __colour__ ") == wildcard_name("colour") == "colour"
    for name in ("two words", "", "a,b", "__", "\u202eab", "x" * 41):
        with pytest.raises(UserMistake, match="wildcard_name"):
            wildcard_name(name)


def test_entries_are_lines_without_empty_ones() -> None:
    assert read_entries(" red\n\n dark blue \r\nأحمر\n") == ("red", "dark blue", "أحمر")
    assert read_entries("red") == ("red",)
    assert read_entries("x" * MAX_ENTRY) == ("x" * MAX_ENTRY,)
    assert len(read_entries("a\n" * MAX_ENTRIES)) == MAX_ENTRIES
    for text in ("", "\n \n", "x" * (MAX_ENTRY + 1), "a\n" * (MAX_ENTRIES + 1)):
        with pytest.raises(UserMistake) as refused:
            read_entries(text)
        assert refused.value.message_id == "wildcard_entries"
        assert refused.value.details == {"limit": MAX_ENTRIES, "characters": MAX_ENTRY}


def test_the_same_seed_draws_the_same_words_in_any_spelling_of_the_name() -> None:
    phrase = read_phrase("__colour__ and __COLOUR__ __animal__")
    drawn = {seed: phrase.text(0, drawing(LISTS, seed=seed)) for seed in range(50)}
    assert drawn == {seed: phrase.text(0, drawing(LISTS, seed=seed)) for seed in range(50)}
    assert len(set(drawn.values())) == 9


def test_an_unknown_list_is_reported_with_the_known_lists() -> None:
    with pytest.raises(UserMistake, match="wildcard_unknown") as caught:
        read_phrase("__fog__").text(0, drawing(LISTS, seed=1))
    assert "Colour, animal" in ENGLISH.mistake(caught.value)
    assert caught.value.details == {"value": "fog", "choices": "Colour, animal"}
    with pytest.raises(UserMistake) as none:
        read_phrase("__fog__").text(0, drawing([], seed=1))
    assert (none.value.message_id, none.value.details) == ("wildcard_none", {"value": "fog"})


def test_more_prompts_than_the_cap_are_refused_with_their_number() -> None:
    assert read_few("{a, b} {c, d}", most=4).count == 4
    with pytest.raises(UserMistake) as caught:
        read_few("{a, b} {c, d}", most=3)
    assert ENGLISH.mistake(caught.value).startswith(
        "These alternatives make 4 prompts, and you may ask for 3"
    )
    with pytest.raises(UserMistake) as caught:
        read_few("{a, b}" * 300, most=3)
    assert "1000000000+ prompts" in ENGLISH.mistake(caught.value)


def test_names_are_suggested_for_what_was_typed() -> None:
    assert wildcard_choices("__co", LISTS) == ["Colour"]
    assert wildcard_choices("", LISTS) == ["Colour", "animal"]


@given(st.text(max_size=60), st.text(max_size=600))
def test_any_text_gives_a_list_or_one_clear_sentence(name: str, entries: str) -> None:
    refused: list[UserMistake] = []
    try:
        made = Wildcard(name=wildcard_name(name), entries=read_entries(entries))
    except UserMistake as error:
        refused.append(error)
    else:
        assert read_phrase(f"a __{made.name}__").text(0, drawing([made], seed=3))[2:] in made.entries
    assert all(len(ENGLISH.mistake(error)) < 140 for error in refused)
