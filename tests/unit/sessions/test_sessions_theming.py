"""The words that a session adds to prompts or requires in them, and the valid values of a host's form."""

from __future__ import annotations

import pytest
from counted_calls import peak_below
from hypothesis import given
from hypothesis import strategies as st
from recipes import recipe

from bot.domain.errors import UserMistake
from bot.sessions.planning import read_minutes, read_quota, read_theme, read_words
from bot.sessions.theming import missing_words, themed, with_words
from bot.store.rows.sessions import Plan
from sdjax_engine.request import MAX_PROMPT_CHARACTERS

PLAN = Plan(
    theme="at night",
    style="Ink",
    style_prompt="ink of {prompt}, black",
    style_negative="colour",
    quota=3,
    session_seconds=60.0,
)


def test_style_and_theme_stand_around_the_words_and_only_once() -> None:
    once = themed(recipe(prompt="a boat"), PLAN)
    assert (once.prompt, once.negative_prompt, once.style) == (
        "ink of a boat, black, at night",
        "colour",
        "Ink",
    )
    assert themed(once, PLAN) == once


def test_the_words_of_many_places_are_refused_before_they_are_written() -> None:
    plan = Plan(
        theme="{prompt}" * 37,
        style_prompt="{prompt}" * 125,
        style_negative="{prompt}" * 125,
        required=tuple(f"ab{number}" for number in range(10)),
        quota=1,
        session_seconds=1.0,
    )
    for prompt, negative in (("x" * 2000, ""), ("", "x" * 2000), ("x" * 30, "")):
        with pytest.raises(UserMistake, match="session_long"), peak_below(1 << 19):
            themed(recipe(prompt=prompt, negative_prompt=negative), plan)


@given(words=st.text(max_size=40), text=st.text(max_size=20))
def test_words_that_were_added_are_not_added_again(words: str, text: str) -> None:
    once = with_words(words, text)
    assert with_words(once, text) == once
    assert words in once


def test_a_session_without_words_changes_nothing() -> None:
    plain = recipe(prompt="a boat", style="Own")
    assert themed(plain, Plan(quota=1, session_seconds=1.0)) == plain


@pytest.mark.parametrize(
    ("prompt", "required", "missing"),
    [
        ("Two CATS and a  red   boat", ("cat", "red boat"), []),
        ("a concatenation", ("cat",), ["cat"]),
        ("빨간고양이를 그려", ("고양이",), []),
        ("والقطة تنام", ("قطة",), []),
        ("一只猫在睡觉", ("猫", "狗"), ["狗"]),
        ("ＣＡＴ", ("cat",), []),
    ],
)
def test_required_words_are_found_in_any_case_with_endings_and_in_joined_scripts(
    prompt: str, required: tuple[str, ...], missing: list[str]
) -> None:
    assert missing_words(prompt, required) == missing


def test_a_prompt_that_lacks_a_word_or_becomes_too_long_is_refused() -> None:
    plan = Plan(theme="x" * 300, required=("boat",), quota=1, session_seconds=1.0)
    with pytest.raises(UserMistake) as lacking:
        themed(recipe(prompt="a tree"), plan)
    assert (lacking.value.message_id, lacking.value.details) == ("session_words", {"words": "boat"})
    with pytest.raises(UserMistake, match="session_long"):
        themed(recipe(prompt="boat " + "y" * (MAX_PROMPT_CHARACTERS - 10)), plan)


def test_the_form_is_read_as_a_host_types_it() -> None:
    assert read_theme("  boats \n at sea, ") == "boats at sea"
    assert read_words("boat, red  sail\nboat，") == ("boat", "red sail")
    assert (read_minutes(" 10 "), read_minutes(""), read_quota("٣")) == (600.0, None, 3)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_theme, "x" * 301),
        (read_words, ",".join(map(str, range(11)))),
        (read_words, "x" * 41),
        (read_minutes, "0"),
        (read_minutes, "ten"),
        (read_minutes, "1441"),
        (read_quota, ""),
        (read_quota, "51"),
        (read_quota, "9" * 5000),
    ],
)
def test_what_a_form_may_not_hold_is_refused(read: object, text: str) -> None:
    with pytest.raises(UserMistake):
        read(text)  # type: ignore[operator]
