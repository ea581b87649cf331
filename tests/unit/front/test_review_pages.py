"""What moderators read about reviews, in every language."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recipes import origin, recipe

from bot.delivery.content import Tone
from bot.delivery.discord_requests import layout
from bot.delivery.review_message import appeal_answer, review_content
from bot.domain.holds import Cause, Hold, Outcome
from bot.domain.jobs import ImageRecord, Job, Showing, State
from bot.front.moderators.audit import entry_lines
from bot.front.moderators.review import settings_lines, waiting_lines
from bot.store.moderation.review_messages import Case
from bot.store.rows.audit import Act, Entry
from bot.store.rows.jobs import origin_json, recipe_values
from bot.store.rows.reviews import Kind, Review, ReviewSettings
from bot.texts.catalogue import LANGUAGES, Moment, Texts

EN = Texts("en")
MINA, RAVI, SERVER, CHANNEL = 11, 12, 21, 31
LONG = "*" * 6000
IMAGE = ImageRecord(
    id=1,
    job_id="abcd1234",
    index=0,
    seed=1,
    state=State.DONE,
    step=1,
    artifact=None,
    failure=None,
    showing=Showing.HOLD,
    held="aa/1.png",
)
JOB = Job(
    id="abcd1234",
    recipe=recipe(prompt=LONG),
    origin=origin(1, user_id=RAVI, guild_id=SERVER),
    state=State.DONE,
    created_at=0.0,
    started_at=0.0,
    finished_at=1.0,
    message_id=7,
    images=(IMAGE,),
    hold=Hold(cause=Cause.MODE),
)
REVIEW = Review(
    id=5,
    kind=Kind.HOLD,
    guild_id=SERVER,
    job_id=JOB.id,
    user_id=RAVI,
    rule="",
    words="",
    request=None,
    opened_at=0.0,
    due_at=99.0,
    outcome=None,
    decided_at=None,
    decided_by=None,
    reason="",
    channel_id=CHANNEL,
    message_id=8,
    trouble="",
)


def due(review: Review = REVIEW, job: Job | None = JOB, **more: Any) -> Case:
    facts: dict[str, Any] = {"place": CHANNEL, "reported": (), "count": 0, "answers": False}
    return Case(review=review, job=job, **{**facts, **more})


@pytest.mark.parametrize("language", sorted(LANGUAGES))
@pytest.mark.parametrize("kind", [Kind.HOLD, Kind.REPORT, Kind.APPEAL])
def test_the_longest_message_fits_and_covers_its_picture(language: str, kind: Kind) -> None:
    showing = Showing.WITHHOLD if kind is Kind.APPEAL else Showing.HOLD
    job = replace(JOB, images=(replace(IMAGE, showing=showing),))
    job = replace(job, recipe=replace(job.recipe, negative_prompt=LONG))
    first = replace(REVIEW, outcome=Outcome.REJECTED, decided_at=1.0, decided_by=MINA, reason=LONG)
    review = replace(REVIEW, kind=kind, rule=LONG[:255], words=LONG)
    many = {"reported": (LONG[:300],) * 5, "count": 5, "first": first, "appeals": 99, "accepted": 98}
    content = review_content(due(review, job, **many), Texts(language))
    assert len(content.text) <= 4000
    (picture,) = content.pictures
    assert (picture.artifacts, picture.spoiler) == (("aa/1.png",), True)
    layout(content, file_names=["a.png"])
    acts = [button.custom_id.split(":")[1] for button in content.buttons]
    expected = (
        ["accept", "decline", "block"] if kind is Kind.APPEAL else ["approve", "spoiler", "reject", "block"]
    )
    assert acts == expected


@pytest.mark.parametrize("language", sorted(LANGUAGES))
@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_decided_review_says_who_and_when_and_shows_nothing_more(language: str, outcome: Outcome) -> None:
    decided = replace(REVIEW, outcome=outcome, decided_at=60.0, decided_by=MINA, reason="*no*")
    content = review_content(due(decided), Texts(language))
    assert (content.pictures, content.rows) == ((), ())
    if outcome not in (Outcome.EXPIRED, Outcome.WITHDRAWN):
        assert f"<@{MINA}>" in content.status
        assert "<t:60:R>" in content.status
    assert "\\*no\\*" in content.status


@pytest.mark.parametrize(
    ("outcome", "heading", "tone"),
    [
        (None, "### A picture is waiting for review", Tone.WAITING),
        (Outcome.SHOWN, "### A held picture", Tone.DONE),
        (Outcome.SPOILER, "### A held picture", Tone.DONE),
        (Outcome.REJECTED, "### A held picture", Tone.CANCELLED),
        (Outcome.EXPIRED, "### A held picture", Tone.CANCELLED),
    ],
)
def test_a_decided_review_waits_no_more(outcome: Outcome | None, heading: str, tone: Tone) -> None:
    content = review_content(due(replace(REVIEW, outcome=outcome, decided_at=60.0)), EN)
    assert (content.heading, content.tone) == (heading, tone)


def test_a_message_about_an_erased_person_names_neither_them_nor_their_words() -> None:
    gone = replace(REVIEW, user_id=-7, outcome=Outcome.WITHDRAWN, decided_at=1.0)
    assert (
        review_content(due(gone, None), EN).status
        == "person no. 7\nThe person who asked for it has deleted it."
    )


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_the_answer_to_an_appeal_names_the_prompt(language: str) -> None:
    refused = recipe(prompt="a *fog*", negative_prompt="_mist_")
    request = {"recipe": recipe_values(refused), "origin": origin_json(JOB.origin)}
    appeal = replace(REVIEW, kind=Kind.APPEAL, job_id=None, request=request, outcome=Outcome.DECLINED)
    assert "a \\*fog\\*" in appeal_answer(appeal, Texts(language))
    waiting = review_content(due(replace(appeal, outcome=None), None), Texts(language))
    assert "a \\*fog\\*" in waiting.status
    assert "\\_mist\\_" in waiting.status
    assert f"<#{JOB.origin.channel_id}>" in waiting.status


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_an_appeal_shows_the_first_decision_the_persons_words_and_their_earlier_appeals(
    language: str,
) -> None:
    texts = Texts(language)
    first = replace(REVIEW, outcome=Outcome.REJECTED, decided_at=60.0, decided_by=MINA, reason="*no*")
    appeal = replace(REVIEW, kind=Kind.APPEAL, words="@everyone it is *art*")
    shown = review_content(due(appeal, first=first, appeals=4, accepted=3), texts).status
    assert (
        texts.gettext("{moderator} has rejected it {when}.", moderator=f"<@{MINA}>", when=Moment(60)) in shown
    )
    assert "\\*no\\*" in shown
    assert "@\u200beveryone it is \\*art\\*" in shown
    assert {"4", "3"} <= set(shown)
    assert texts.gettext("No earlier appeals in this server.") in review_content(due(appeal), texts).status


def test_a_decided_appeal_is_accepted_and_says_whether_one_moderator_has_decided_twice() -> None:
    first = replace(REVIEW, outcome=Outcome.REJECTED, decided_at=60.0, decided_by=MINA)
    appeal = replace(REVIEW, kind=Kind.APPEAL, outcome=Outcome.SHOWN, decided_at=90.0, decided_by=MINA)
    twice = "The same moderator had decided before."
    status = review_content(due(appeal, first=first), EN).status
    assert f"<@{MINA}> has accepted the appeal <t:90:R>." in status
    assert twice in status
    other = replace(appeal, decided_by=RAVI)
    assert twice not in review_content(due(other, first=first), EN).status


def test_a_held_picture_is_said_to_be_for_moderators_only_in_a_private_channel() -> None:
    assert "Only moderators see it." in review_content(due(), EN).status
    assert "All members of this channel see the picture." in review_content(due(), EN, private=False).status


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_what_waits_is_listed_with_links_and_troubles(language: str) -> None:
    lines = waiting_lines([REVIEW, replace(REVIEW, message_id=None, trouble="no_channel")], Texts(language))
    assert "https://discord.com/channels/21/31/8" in lines[0]
    assert Texts(language).gettext("no channel shows it: none is chosen") in lines[1]
    assert len(waiting_lines([], Texts(language))) == 1
    assert "<#31>" in next(iter(settings_lines(ReviewSettings(channel_id=CHANNEL), Texts(language))))
    assert len(list(settings_lines(ReviewSettings(), Texts(language)))) == 3


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_act_of_a_review_is_said(language: str) -> None:
    acts = [Act.APPROVE, Act.COVER, Act.REJECT, Act.DECLINE, Act.HIDE, Act.EXPIRE, Act.REVIEW]
    facts: dict[str, Any] = {"at": 0.0, "guild_id": SERVER, "reason": "", "before": None}
    entries = [
        Entry(id=1, actor_id=MINA, subject_id=RAVI, act=act, after={"job": "a"}, **facts) for act in acts
    ]
    entries.append(Entry(id=1, actor_id=0, subject_id=RAVI, act=Act.HIDE, after={"reports": 3}, **facts))
    appeal = {"kind": Kind.APPEAL.value}
    entries.append(Entry(id=1, actor_id=MINA, subject_id=RAVI, act=Act.APPROVE, after=appeal, **facts))
    lines = entry_lines(entries, Texts(language))
    assert len(set(lines)) == len(lines)
    assert all("<@12>" in line or "<@11>" in line for line in lines)
