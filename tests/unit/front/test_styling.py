"""Styles around a person's words: texts, names, and the precedence of options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.errors import UserMistake
from bot.front.recipes.options import Asked, nearest
from bot.front.recipes.style import (
    MAX_NAME,
    MAX_TEXT,
    find,
    placed,
    style_choices,
    style_name,
    style_text,
    styled,
    unknown_style,
    with_style,
)
from bot.store.library.styles import Style
from bot.texts.catalogue import Texts

ENGLISH = Texts.for_locale("en")
INK = Style(
    name="Ink", prompt="ink drawing of {prompt}, fine", negative_prompt="photo", options={"steps": 30}
)
FOG = Style(name="Fog", prompt="in thick fog")


@pytest.mark.parametrize(
    ("text", "words", "whole"),
    [
        ("ink drawing of {prompt}, fine", "a boat", "ink drawing of a boat, fine"),
        ("in thick fog", "a boat", "a boat, in thick fog"),
        ("", "a boat", "a boat"),
        ("photo", "", "photo"),
        ("{prompt}, photo", "", "photo"),
        ("{prompt} and {prompt}", "a {prompt}", "a {prompt} and a {prompt}"),
    ],
)
def test_a_styles_text_takes_the_words_in_its_place_or_before_it(text: str, words: str, whole: str) -> None:
    assert placed(text, words) == whole


def test_both_texts_of_a_style_are_added_and_typed_options_stay() -> None:
    asked = styled(Asked(prompt="a boat", negative_prompt="people", steps=5), INK)
    assert asked == Asked(
        prompt="ink drawing of a boat, fine", negative_prompt="people, photo", steps=5, style="Ink"
    )


def test_a_style_without_a_negative_text_leaves_room_for_the_preferred_one() -> None:
    assert styled(Asked(prompt="a boat"), FOG).negative_prompt is None


def test_a_style_comes_after_the_settings_that_name_it_and_before_the_next() -> None:
    mine, server = {"guidance": 3.0}, {"steps": 10, "guidance": 9.0, "variants": 2}
    assert nearest(with_style([mine, server], INK, before=1)) == {"steps": 30, "guidance": 3.0, "variants": 2}
    assert nearest(with_style([{"steps": 5}, server], INK, before=0))["steps"] == 30


def test_the_first_of_two_styles_of_one_name_is_found() -> None:
    own = Style(name="INK", prompt="own")
    assert find(" ink ", [own, INK]) is own
    assert find("in", [own, INK]) is None


def test_names_that_begin_as_typed_are_suggested_first_and_each_once() -> None:
    styles = [Style(name="Blue ink"), Style(name="INK"), INK, FOG]
    assert style_choices("ink", styles) == ["INK", "Blue ink"]
    assert len(style_choices("", [Style(name=f"s{number}") for number in range(100)])) == 25


@pytest.mark.parametrize("name", ["", "  ", "a" * 61, "a\x00b", "\u202eback", "-", "\u200b", "\ud800"])
def test_a_name_that_cannot_be_seen_whole_is_refused(name: str) -> None:
    with pytest.raises(UserMistake, match="style_name"):
        style_name(name)


@pytest.mark.parametrize("name", ["먹 그림", "حبر", "Ink, dry", "👩‍🎨", "नेपाली", "{x}"])
def test_a_name_of_any_script_is_kept(name: str) -> None:
    assert style_name(f" {name} ") == name


@given(st.text(max_size=100), st.text(max_size=1100))
def test_any_text_gives_a_style_or_one_clear_sentence(name: str, text: str) -> None:
    try:
        style = Style(name=style_name(name), prompt=style_text(text))
    except UserMistake as error:
        sentence = ENGLISH.mistake(error)
        assert len(sentence) < 120
        assert "\n" not in sentence
    else:
        assert find(style.name, [style]) is style
        assert styled(Asked(prompt="a boat"), style).prompt


def test_a_refused_style_says_which_limit_it_is_over() -> None:
    with pytest.raises(UserMistake) as name:
        style_name("")
    assert (name.value.message_id, name.value.details) == ("style_name", {"limit": MAX_NAME})
    with pytest.raises(UserMistake) as text:
        style_text("x" * (MAX_TEXT + 1))
    assert (text.value.message_id, text.value.details) == (
        "style_text",
        {"count": MAX_TEXT + 1, "limit": MAX_TEXT},
    )
    assert style_text("x" * MAX_TEXT) == "x" * MAX_TEXT


def test_an_unknown_style_is_quoted_with_those_that_there_are() -> None:
    none = unknown_style("fag\n", [])
    assert (none.message_id, none.details) == ("style_none", {"value": "fag"})
    some = unknown_style("fag", [INK, FOG])
    assert (some.message_id, some.details) == ("style_unknown", {"value": "fag", "choices": "Fog, Ink"})
