"""Long prompts in messages: cut at a word, with a line that names the button for the whole prompt."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import regex
from recipes import job_of, recipe

from bot.delivery.content import MAX_ALT, MessageContent
from bot.delivery.render import SHOWN_PROMPT, render, without_picture
from bot.delivery.result import SHOWN_NEGATIVE_PROMPT
from bot.domain.jobs import Notes, State
from bot.front.results.more import parameters_of
from bot.texts.catalogue import LANGUAGES, Texts
from bot.texts.markup import shown
from sdjax_engine.images import parameters_text
from sdjax_engine.request import Int8

ENGLISH = Texts.for_locale("en-US")
WHOLE = "-# The whole prompt: More, then Info."
FLAGS, FAMILY, JAMO = "🇰🇷", "👨\u200d👩\u200d👧", "\u1112\u1161\u11ab"  # each is one letter to its reader


def of(prompt: str, state: State = State.DONE, *, negative: str = "", failure: str = "") -> MessageContent:
    job = job_of(state, recipe=recipe(prompt=prompt, negative_prompt=negative), failure=failure or None)
    return render(job, None, ENGLISH)


def words(count: int) -> str:
    """A text of `count` characters, in words of four letters."""
    return ("boat " * count)[:count]


def test_a_prompt_over_the_limit_is_folded_at_a_word() -> None:
    whole = words(SHOWN_PROMPT - 1) + "s"
    assert len(whole) == 240
    assert of(whole).heading == f"**{whole}**"
    assert of(whole).folded == ""
    folded = of(whole + "s")
    assert folded.heading == f"**{'boat ' * 46}boat…**"
    assert folded.folded == WHOLE
    assert folded.text.endswith(f"\n{WHOLE}")


def test_a_negative_prompt_over_the_limit_is_folded() -> None:
    whole = words(SHOWN_NEGATIVE_PROMPT - 1) + "s"
    assert len(whole) == 120
    assert of("a boat", negative=whole).text.endswith(f"\n-# without: {whole}")
    folded = of("a boat", negative=whole + "s")
    assert folded.text.endswith(f"\n-# without: {'boat ' * 22}boat…\n{WHOLE}")


def test_both_folded_have_one_line() -> None:
    assert of("boat " * 100, negative="fog " * 100).text.count("The whole prompt") == 1


def test_blanks_that_are_not_shown_do_not_count() -> None:
    assert of("a" + "\n " * 300 + "boat").folded == ""


@pytest.mark.parametrize("beginning", ["", "a big ", "a 10, "])
def test_a_word_that_fills_the_message_is_cut_within(beginning: str) -> None:
    heading = of(beginning + "x" * 300).heading
    assert heading == f"**{beginning}{'x' * (239 - len(beginning))}…**"


@pytest.mark.parametrize("letter", [FLAGS, FAMILY, JAMO, "👍🏽", "e\u0301", "क्षि", "1\ufe0f\u20e3"])
@pytest.mark.parametrize("before", range(4))
def test_no_letter_is_torn_from_its_marks(letter: str, before: int) -> None:
    cut = shown("x" * before + letter * 200, SHOWN_PROMPT).removesuffix("…")
    assert cut == "x" * before + letter * ((SHOWN_PROMPT - 1 - before) // len(letter))
    assert set(regex.findall(r"\X", cut)) <= {letter, "x"}


def test_a_letter_longer_than_the_limit_is_cut_all_the_same() -> None:
    assert len(shown("👩" + "\u200d👩" * 300, SHOWN_PROMPT)) == SHOWN_PROMPT


@pytest.mark.parametrize(
    "piece",
    ["```fence``` ", "**bold** ", "@everyone ", "<@123> ", "[a](https://b.example) ", "||hidden|| ", "\\*"],
)
def test_a_folded_prompt_stays_escaped(piece: str) -> None:
    for extra in range(12):
        inside = of("x" * extra + " " + piece * 150).heading.removeprefix("**").removesuffix("**")
        assert inside.endswith("…")
        assert not set(re.sub(r"\\.", "", inside)) & set("\\*`|<[")
        assert "@everyone" not in inside
        assert "https://" not in inside
        assert len(inside) <= 2 * SHOWN_PROMPT


@pytest.mark.parametrize("prompt", ["قارب أحمر " * 60, "סירה אדומה " * 60])
def test_words_from_right_to_left_are_folded_at_a_word(prompt: str) -> None:
    kept = of(prompt).heading.removeprefix("**").removesuffix("…**")
    assert prompt.startswith(f"{kept} ")
    negative = of("a boat", negative=prompt).text.splitlines()[-2]
    assert negative.endswith("…\N{POP DIRECTIONAL ISOLATE}")
    assert "\N{FIRST STRONG ISOLATE}" in negative


@pytest.mark.parametrize("state", [State.WAITING, State.RUNNING])
def test_a_message_that_has_neither_button_folds_without_the_line(state: State) -> None:
    content = of(words(600), state)
    assert content.heading.endswith("…**")
    assert "whole prompt" not in content.text


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
def test_without_a_picture_remix_has_the_whole_prompt(state: State) -> None:
    assert of(words(600), state).folded == "-# The whole prompt: Remix."
    assert of("a boat", state, negative=words(600)).folded == ""  # its negative prompt is not shown


def test_without_remix_there_is_no_line() -> None:
    assert of(words(600), State.FAILED, failure="start_missing").folded == ""


def test_a_message_whose_picture_is_gone_names_the_button_that_is_left() -> None:
    gone = without_picture(of(words(600)), ENGLISH)
    assert gone.more is None
    assert gone.folded == "-# The whole prompt: Remix."
    assert without_picture(of("a boat"), ENGLISH).folded == ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_line_names_the_menu_and_its_choice_as_they_are_written(language: str) -> None:
    content = render(job_of(State.DONE, recipe=recipe(prompt=words(600))), None, Texts.for_locale(language))
    assert content.more is not None
    assert content.more.placeholder in content.folded
    assert content.more.choices[-1].label in content.folded


def test_alternative_text_has_as_much_of_the_prompt_as_discord_takes() -> None:
    [picture] = of("x" * 2000).pictures
    assert len(picture.alt) == MAX_ALT


def test_info_names_the_parts_with_int8_weights() -> None:
    job = job_of(State.DONE)
    [image] = job.images
    rounded = replace(job, images=(replace(image, notes=Notes(int8=(Int8.DENOISER,))),))
    assert "INT8: denoiser" in "".join(parameters_of(rounded))
    assert "INT8" not in "".join(parameters_of(job))


@pytest.mark.parametrize("prompt", ["x" * 2000, words(2000), "한" * 2000, "`" * 2000])
def test_info_has_every_word_in_pages_that_discord_takes(prompt: str) -> None:
    job = job_of(State.DONE, recipe=recipe(prompt=prompt, negative_prompt=prompt))
    parts = parameters_of(job)
    whole = parameters_text(job.recipe.request(0)).replace("```", "\u02cb\u02cb\u02cb")
    assert "\n".join(parts) == whole
    assert all(len(part) <= 3500 for part in parts)
    assert "```" not in "".join(parts)
