"""Latin words in Arabic lines and Arabic words in Latin ones: each keeps its own direction."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace

import pytest
from recipes import job_of, origin, recipe

from bot.config import Config
from bot.delivery.render import render
from bot.domain.errors import UserMistake
from bot.domain.jobs import Job, Position, State
from bot.front.answers.answers import sentence_for
from bot.front.commands.help import Limits, help_text
from bot.front.commands.history import Page, history_lines
from bot.front.commands.queue import Listing, queue_lines, request_name
from bot.front.features import other_commands
from bot.texts.catalogue import Texts

COMMANDS = other_commands()
LIMITS = Limits(requests=30, waiting=60, files=6, picture_days=30, job_days=365)

ARABIC, ENGLISH = Texts.for_locale("ar"), Texts.for_locale("en-US")
FSI, PDI = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
WAITING = Position(place=1, ahead=0, seconds=3.0, end=9.0)


def of_words(prompt: str, *states: State) -> Job:
    made = job_of(*states, recipe=recipe(prompt=prompt, negative_prompt=prompt), origin=origin(1, user_id=2))
    return replace(made, message_id=7)


def lines_about(job: Job, texts: Texts) -> Iterator[str]:
    """Lines that name a job among other text: history, queue, suggestions, and its message."""
    yield from history_lines(Page(jobs=(job,), older=False, newer=False), texts)
    listing = Listing(jobs=[(1, job)], total=1)
    yield from queue_lines(listing, {job.id: WAITING}, viewer=1, seen={job.id}, texts=texts)
    yield request_name(job, now=9.0, texts=texts, named=True)
    content = render(job, WAITING, texts)
    yield from [*content.status.splitlines(), *content.footer.splitlines()]


def outside_isolates(line: str) -> str:
    """A line without its isolated parts and without code between backticks."""
    found, depth = "", 0
    for letter in line:
        depth += letter == FSI
        if depth == 0:
            found += letter
        depth -= letter == PDI
    assert depth == 0
    return re.sub(r"`[^`]*`", "", found)


def strong(text: str) -> list[str]:
    """The directions of the letters that have one, in order."""
    classes = (unicodedata.bidirectional(letter) for letter in text)
    return ["R" if each in ("R", "AL") else each for each in classes if each in ("L", "R", "AL")]


@pytest.mark.parametrize("states", [(State.WAITING,), (State.RUNNING, State.DONE), (State.DONE,) * 3])
def test_arabic_lines_run_from_the_right_and_nothing_latin_stands_free_in_them(
    states: tuple[State, ...],
) -> None:
    for line in lines_about(of_words("a boat, 2 cats", *states), ARABIC):
        assert set(strong(outside_isolates(line))) == {"R"}, line


def test_the_items_of_the_arabic_help_run_from_the_right() -> None:
    text = help_text([Config().models[0].offer], LIMITS, COMMANDS, texts=ARABIC, names=ENGLISH)
    for line in text.splitlines():
        assert strong(outside_isolates(line))[0] == "R", line
    assert f"{FSI}/imagine{PDI}" in text


@pytest.mark.parametrize("states", [(State.WAITING,), (State.RUNNING, State.DONE), (State.DONE,) * 3])
def test_arabic_words_turn_nothing_round_in_an_english_line(states: tuple[State, ...]) -> None:
    for line in lines_about(of_words("قارب أحمر", *states), ENGLISH):
        assert "R" not in strong(outside_isolates(line)), line
    assert FSI not in "".join(lines_about(of_words("a red boat", *states), ENGLISH))


def test_what_was_typed_is_isolated_in_a_refusal_and_cannot_break_out_of_it() -> None:
    told = sentence_for(UserMistake("size_or_aspect", value=f"x{PDI}y", choices="128x128 (1:1)"), ARABIC)
    assert f"{FSI}xy{PDI}" in told
    assert set(strong(outside_isolates(told))) == {"R"}
