"""The sentences above a result about its pictures that are covered or not shown: of one and of several."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recipes import job_of

from bot.delivery.render import render
from bot.domain.holds import Appeal, Cause, Hold, Outcome, Ruling
from bot.domain.jobs import Job, Notes, Showing, State
from bot.domain.levels import Level
from bot.texts.catalogue import Texts

ENGLISH = Texts.for_locale("en")
KNOWN = Notes(known=True)
FLAGGED = Notes(level=Level.MILD)
REASON = "The moderator's reason: "


def result(showing: Showing, *notes: Notes, hold: Hold | None = None, ruling: Ruling | None = None) -> Job:
    """A finished job whose pictures have these notes, and all the same showing, hold and ruling."""
    job = job_of(*[State.DONE] * len(notes))
    by_moderators = showing is Showing.HOLD or ruling is not None
    images = (
        replace(
            image,
            showing=showing,
            notes=own,
            artifact=image.artifact if showing in (Showing.SHOW, Showing.SPOILER) else None,
            held=image.artifact if by_moderators else None,
            ruling=ruling,
        )
        for image, own in zip(job.images, notes, strict=True)
    )
    return replace(job, images=tuple(images), hold=hold, ruling=ruling)


def said(job: Job) -> str:
    return render(job, None, ENGLISH).status


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (1, "1 picture is not shown: it is almost identical to a picture that is blocked here."),
        (2, "2 pictures are not shown: they are almost identical to pictures that are blocked here."),
    ],
)
def test_a_picture_like_a_blocked_one_is_not_said_to_be_the_safety_checkers_decision(
    count: int, sentence: str
) -> None:
    assert said(result(Showing.WITHHOLD, *[KNOWN] * count)) == sentence


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (1, "1 picture is not shown: the safety checker found it unfit for this channel."),
        (2, "2 pictures are not shown: the safety checker found them unfit for this channel."),
    ],
)
def test_what_the_safety_checker_withheld_comes_with_what_to_do(count: int, sentence: str) -> None:
    status = said(result(Showing.WITHHOLD, *[FLAGGED] * count))
    assert status == f"{sentence} Press Again for others, or change the words."


def test_pictures_that_are_withheld_for_different_reasons_are_counted_apart() -> None:
    assert said(result(Showing.WITHHOLD, KNOWN, FLAGGED, FLAGGED)) == (
        "1 picture is not shown: it is almost identical to a picture that is blocked here. "
        "2 pictures are not shown: the safety checker found them unfit for this channel. "
        "Press Again for others, or change the words."
    )


@pytest.mark.parametrize(
    ("notes", "sentence"),
    [
        (Notes(), "2 pictures are behind a spoiler."),
        (FLAGGED, "2 pictures are behind a spoiler: the safety checker flagged them."),
    ],
)
def test_covered_pictures_are_counted(notes: Notes, sentence: str) -> None:
    assert said(result(Showing.SPOILER, notes, notes)) == sentence


@pytest.mark.parametrize(
    ("cause", "count", "sentence"),
    [
        (
            Cause.REPORTS,
            1,
            "1 picture was reported and is hidden until moderators have looked at it.",
        ),
        (
            Cause.REPORTS,
            2,
            "2 pictures were reported and are hidden until moderators have looked at them.",
        ),
        (
            Cause.MODE,
            1,
            "1 picture is painted and waiting for moderators: it is shown once approved.",
        ),
        (
            Cause.MODE,
            2,
            "2 pictures are painted and waiting for moderators: they are shown once approved.",
        ),
    ],
)
def test_held_pictures_are_counted_with_what_they_wait_for(cause: Cause, count: int, sentence: str) -> None:
    assert said(result(Showing.HOLD, *[Notes()] * count, hold=Hold(cause=cause))) == sentence


@pytest.mark.parametrize(
    ("outcome", "count", "sentence"),
    [
        (Outcome.EXPIRED, 1, "1 picture is not shown: no moderator has looked at it in time."),
        (Outcome.EXPIRED, 2, "2 pictures are not shown: no moderator has looked at them in time."),
        (Outcome.REJECTED, 1, "1 picture is not shown: a moderator has decided so."),
        (Outcome.REJECTED, 2, "2 pictures are not shown: a moderator has decided so."),
    ],
)
def test_pictures_that_moderators_did_not_let_through_are_counted_with_how_that_came(
    outcome: Outcome, count: int, sentence: str
) -> None:
    assert said(result(Showing.WITHHOLD, *[Notes()] * count, ruling=Ruling(outcome=outcome))) == sentence


def test_a_rejected_picture_stays_the_moderators_decision_while_others_are_held_once_more() -> None:
    job = result(Showing.WITHHOLD, Notes(), Notes(), ruling=Ruling(outcome=Outcome.REJECTED))
    images = job.images[0], replace(job.images[1], showing=Showing.HOLD)
    held_again = replace(job, images=images, hold=Hold(cause=Cause.REPORTS), ruling=None)
    assert said(held_again) == (
        "1 picture was reported and is hidden until moderators have looked at it. "
        "1 picture is not shown: a moderator has decided so."
    )


@pytest.mark.parametrize(
    ("rulings", "sentences"),
    [
        (
            [Ruling(outcome=Outcome.REJECTED, reason="dark"), None],
            ["2 pictures are not shown: a moderator has decided so.", "The moderator's reason: dark"],
        ),
        (
            [Ruling(outcome=Outcome.REJECTED), Ruling(outcome=Outcome.EXPIRED)],
            [
                "1 picture is not shown: no moderator has looked at it in time.",
                "1 picture is not shown: a moderator has decided so.",
            ],
        ),
        (
            [Ruling(outcome=Outcome.REJECTED, reason=reason) for reason in ("dark", "gore", "dark")],
            [
                "3 pictures are not shown: a moderator has decided so.",
                "The moderator's reason: dark",
                "The moderator's reason: gore",
            ],
        ),
    ],
)
def test_each_picture_has_its_own_decision_with_its_reason(
    rulings: list[Ruling | None], sentences: list[str]
) -> None:
    last = Ruling(outcome=Outcome.SHOWN, reason="of another picture")
    job = result(Showing.WITHHOLD, *[Notes()] * len(rulings), ruling=last)
    images = tuple(replace(image, ruling=own) for image, own in zip(job.images, rulings, strict=True))
    assert said(replace(job, images=images)) == " ".join(sentences)


def with_reasons(*reasons: str) -> Job:
    """A job of which each picture was rejected for its reason."""
    rulings = [Ruling(outcome=Outcome.REJECTED, reason=reason) for reason in reasons]
    job = result(Showing.WITHHOLD, *[Notes()] * len(reasons), ruling=rulings[0])
    images = tuple(replace(image, ruling=own) for image, own in zip(job.images, rulings, strict=True))
    return replace(job, images=images)


def test_the_reasons_of_many_moderators_are_together_as_long_as_one_may_be() -> None:
    told = said(with_reasons(*(f"{number} " + "dark " * 80 for number in range(9)))).split(REASON)
    assert len(told) == 10
    assert sum(map(len, told[1:])) <= 300 + 9


def test_a_reason_is_said_once_whatever_its_spaces() -> None:
    assert said(with_reasons("no", " no ", "\u202e")).split(REASON)[1:] == ["no"]


def test_a_short_reason_leaves_its_room_to_a_long_one() -> None:
    long, longer = "dark " * 43 + "x", "gore " * 80
    assert said(with_reasons(long, "no")).endswith(f"{REASON}{long} {REASON}no")
    cut = said(with_reasons("no", longer, "unfit")).split(REASON)
    assert (cut[1], cut[3]) == ("no ", "unfit")
    assert 280 < len(cut[2]) <= 300 - 7 + 1


@pytest.mark.parametrize(
    ("appeal", "sentence"),
    [
        (Appeal.OPEN, ""),
        (Appeal.DECLINED, " Moderators have declined the appeal, so this stands."),
        (Appeal.EXPIRED, " No moderator has looked at the appeal in time, so this stands."),
    ],
)
def test_the_end_of_an_appeal_is_said_beside_the_decision_that_stands(appeal: Appeal, sentence: str) -> None:
    job = result(Showing.WITHHOLD, Notes(), ruling=Ruling(outcome=Outcome.REJECTED, reason="dark"))
    assert said(replace(job, appeal=appeal)) == (
        f"1 picture is not shown: a moderator has decided so.{sentence} The moderator's reason: dark"
    )
    waited = result(Showing.WITHHOLD, Notes(), ruling=Ruling(outcome=Outcome.EXPIRED))
    assert said(replace(waited, appeal=appeal)) == (
        f"1 picture is not shown: no moderator has looked at it in time.{sentence}"
    )
