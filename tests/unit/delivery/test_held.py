"""What the message of a job without a picture says: held, rejected, waiting, failed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recipes import ORIGIN, job_of, recipe

from bot.delivery.content import Tone
from bot.delivery.render import render
from bot.domain.holds import Cause, Hold, Outcome, Ruling
from bot.domain.jobs import ImageRecord, Job, Showing, State
from bot.texts.catalogue import LANGUAGES, Texts

EN = Texts.for_locale("en")
HELD = Hold(cause=Cause.MODE)


def job(*kinds: Showing, hold: Hold | None = HELD, ruling: Ruling | None = None) -> Job:
    images = tuple(
        ImageRecord(
            id=index,
            job_id="abcd1234",
            index=index,
            seed=index,
            state=State.DONE,
            step=1,
            artifact=None if kind in (Showing.HOLD, Showing.WITHHOLD) else f"aa/{index}.png",
            failure=None,
            showing=kind,
            held=f"aa/{index}.png" if kind in (Showing.HOLD, Showing.WITHHOLD) else None,
            ruling=ruling,
        )
        for index, kind in enumerate(kinds)
    )
    return Job(
        id="abcd1234",
        recipe=recipe(variants=len(images)),
        origin=ORIGIN,
        state=State.DONE,
        created_at=0.0,
        started_at=0.0,
        finished_at=1.0,
        message_id=7,
        images=images,
        hold=hold,
        ruling=ruling,
    )


BY_RULE = Hold(cause=Cause.RULE, rule="Blades")


@pytest.mark.parametrize(
    ("ruling", "said"),
    [
        (None, "A rule of this server hides these words until moderators approve them."),
        (
            Ruling(outcome=Outcome.REJECTED),
            "A rule of this server hides these words: moderators have not approved them.",
        ),
    ],
)
def test_words_that_a_rule_holds_are_hidden_from_the_channel(ruling: Ruling | None, said: str) -> None:
    held = job(Showing.HOLD if ruling is None else Showing.WITHHOLD, hold=BY_RULE, ruling=ruling)
    content = render(held, None, EN)
    assert content.heading == said
    assert held.recipe.prompt not in str(content)
    assert not [button for button in content.buttons if button.custom_id.startswith("remix")]
    waiting = render(replace(held, state=State.WAITING), None, EN)
    assert held.recipe.prompt not in str(waiting)
    alone = render(replace(held, origin=replace(ORIGIN, private=True)), None, EN)
    assert held.recipe.prompt in alone.heading


def test_the_hidden_words_of_a_request_without_a_picture_wait_for_nobody() -> None:
    held = job(Showing.SHOW, hold=BY_RULE)
    images = tuple(replace(each, state=State.CANCELLED, artifact=None) for each in held.images)
    content = render(replace(held, state=State.CANCELLED, images=images), None, EN)
    assert content.heading == "A rule of this server hides these words."
    assert content.status == "Cancelled. Press Again to ask for it once more."
    assert "again:abcd1234" in [button.custom_id for button in content.buttons]


def test_words_that_moderators_let_through_are_shown() -> None:
    shown = job(Showing.SHOW, hold=BY_RULE, ruling=Ruling(outcome=Outcome.SHOWN))
    assert shown.recipe.prompt in render(shown, None, EN).heading


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_a_held_result_has_a_sentence_and_neither_picture_nor_buttons_that_need_one(language: str) -> None:
    content = render(job(Showing.HOLD, Showing.HOLD), None, Texts.for_locale(language))
    assert content.status
    assert (content.pictures, content.more) == ((), None)
    assert content.tone is Tone.WAITING
    assert [button.custom_id for button in content.buttons] == [
        "again:abcd1234",
        "remix:abcd1234",
        "delete:abcd1234",
    ]


def test_one_held_picture_holds_no_other() -> None:
    content = render(job(Showing.SHOW, Showing.HOLD), None, EN)
    assert [picture.artifacts for picture in content.pictures] == [("aa/0.png",)]
    assert content.status.startswith("1 picture is painted and waiting for moderators")


def test_a_picture_that_the_checker_withheld_is_not_said_to_be_a_moderators_decision() -> None:
    both = job(Showing.WITHHOLD, Showing.WITHHOLD, ruling=Ruling(outcome=Outcome.REJECTED))
    both = replace(both, images=(both.images[0], replace(both.images[1], held=None)))
    status = render(both, None, EN).status
    assert "1 picture is not shown: the safety checker" in status
    assert "1 picture is not shown: a moderator" in status


def test_an_ended_job_has_the_tone_of_its_end_and_says_settings_below_a_picture() -> None:
    for state in (State.DONE, State.CANCELLED, State.FAILED):
        ended = render(job_of(state), None, EN)
        assert (ended.tone, bool(ended.footer)) == (Tone(state), state is State.DONE)
    assert render(job(Showing.WITHHOLD, hold=None), None, EN).tone is Tone.FAILED
