"""Differences between the states of a job besides the text: tone, the cancel button, who sees it, times."""

from __future__ import annotations

import pytest
from recipes import job_of

from bot.delivery.buttons import ButtonContent
from bot.delivery.content import Tone
from bot.delivery.render import render
from bot.domain.jobs import State
from bot.domain.positions import Position
from bot.texts.catalogue import Texts

ENGLISH = Texts.for_locale("en")


@pytest.mark.parametrize("states", [(State.DONE,), (State.DONE, State.FAILED)])
def test_a_result_with_a_picture_has_the_tone_of_success(states: tuple[State, ...]) -> None:
    assert render(job_of(*states), None, ENGLISH).tone is Tone.DONE


@pytest.mark.parametrize("state", [State.WAITING, State.RUNNING])
def test_the_button_to_cancel_looks_dangerous(state: State) -> None:
    cancel = ButtonContent(label="Cancel", custom_id="cancel:abc", dangerous=True)
    assert render(job_of(state), None, ENGLISH).buttons == (cancel,)


@pytest.mark.parametrize(("failure", "alone"), [("invalid_request", True), ("painting_failed", False)])
def test_settings_that_are_refused_are_said_to_their_person_alone(failure: str, alone: bool) -> None:
    assert render(job_of(State.FAILED, failure=failure), None, ENGLISH).refusal is alone


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
def test_without_a_picture_there_are_no_settings_below(state: State) -> None:
    assert render(job_of(state), None, ENGLISH).footer == ""


def test_a_time_is_promised_only_where_start_and_end_are_known() -> None:
    starts = Position(place=1, ahead=0, seconds=5.0)
    assert render(job_of(State.WAITING), starts, ENGLISH).status == "Queued, 1st."


def test_a_job_that_has_begun_is_not_said_to_be_next_while_another_picture_of_it_waits() -> None:
    later = Position(place=1, ahead=0, seconds=4.0, end=8.0)
    said = render(job_of(State.DONE, State.RUNNING), later, ENGLISH).status
    assert said.startswith("Painting: step 20 of 40, 1 of 2 pictures finished. Done in about 8 s.\n")


def test_after_the_last_step_all_is_done_and_a_picture_beside_it_is_told() -> None:
    shared = Position(place=0, ahead=0, seconds=0.0, end=1.0, seats=2, taken=2)
    said = render(job_of(State.RUNNING, step=20), shared, ENGLISH).status
    assert said.splitlines()[1] == "-# ████████████ · 100 % · painted together with 1 other picture"
