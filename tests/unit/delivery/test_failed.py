"""What the message of a failed job says, and what it offers."""

from __future__ import annotations

import pytest
from recipes import job_of, recipe

from bot.delivery.content import MessageContent
from bot.delivery.render import render
from bot.delivery.result import FAILURES
from bot.domain.jobs import State
from bot.texts.catalogue import Texts

ENGLISH = Texts.for_locale("en-US")


def labels(content: MessageContent) -> list[str]:
    return [button.custom_id for button in content.buttons]


PLAIN_FAILURES = [failure for failure in FAILURES if failure != "unsuited_sampler"]


@pytest.mark.parametrize("failure", [*PLAIN_FAILURES, "a name from a later version"])
def test_a_failed_job_says_what_to_do(failure: str) -> None:
    content = render(job_of(State.FAILED, failure=failure), None, ENGLISH)
    assert content.status == FAILURES.get(failure, FAILURES["painting_failed"])


def test_a_sampler_that_does_not_suit_is_said_with_those_that_do() -> None:
    content = render(
        job_of(State.FAILED, State.FAILED, failure="unsuited_sampler: euler, DPM++ 2M, a_later_one"),
        None,
        ENGLISH,
    )
    assert content.status == "The sampler “DDIM” does not suit demo: choose from Euler, DPM++ 2M."
    assert content.pictures == ()
    assert labels(content) == ["remix:abc", "delete:abc"]


def test_a_models_name_in_a_failure_is_cut_at_eighty_characters() -> None:
    job = job_of(State.FAILED, failure="unsuited_sampler: euler", recipe=recipe(model="m" * 81))
    said = render(job, None, ENGLISH).status
    assert said == f"The sampler “DDIM” does not suit {'m' * 79}…: choose from Euler."


def test_names_in_what_a_worker_refuses_mean_nothing_to_discord() -> None:
    failure = 'invalid_request: {"problem": "large_loras", "value": "*ink* @everyone"}'
    said = render(job_of(State.FAILED, failure=failure), None, ENGLISH).status
    assert said == "The LoRAs \\*ink\\* @\u200beveryone are too large together: choose fewer of them."


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (
            '{"problem": "steps", "value": 60, "limit": 50}',
            "60 steps are not possible: choose between 1 and 50.",
        ),
        ('{"problem": "of a newer version"}', FAILURES["invalid_request"]),
        ('{"problem": "steps"}', FAILURES["invalid_request"]),
        ("", FAILURES["invalid_request"]),
    ],
)
def test_a_setting_that_only_a_worker_can_refuse_is_named(failure: str, sentence: str) -> None:
    content = render(job_of(State.FAILED, failure=f"invalid_request: {failure}"), None, ENGLISH)
    assert content.status == sentence
    assert labels(content) == ["remix:abc", "delete:abc"]
    assert content.refusal, "said to its person alone"


@pytest.mark.parametrize(
    ("states", "failure", "again"),
    [
        ((State.FAILED,), "painting_failed", True),
        ((State.FAILED,), "not_kept", True),
        ((State.FAILED,), "not_offered", False),
        ((State.FAILED,), "worker_died", False),
        ((State.FAILED,), "start_missing", False),
        ((State.FAILED, State.CANCELLED), "invalid_request", False),
        ((State.FAILED, State.DONE), "invalid_request", True),
        ((State.CANCELLED,), "", True),
    ],
)
def test_what_the_same_request_meets_again_is_not_offered_again(
    states: tuple[State, ...], failure: str, again: bool
) -> None:
    content = render(job_of(*states, failure=failure), None, ENGLISH)
    assert ("again:abc" in labels(content)) is again
    assert not (content.refusal and again)
