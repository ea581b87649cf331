"""Boards, ballots and results in every language, within what Discord takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recipes import recipe

from bot.delivery.content import MessageContent
from bot.front.moderators.audit import said_of_session
from bot.front.sessions.board import board
from bot.front.sessions.pages import announcement, results, sheet
from bot.store.rows.sessions import GroupSession, Phase, Plan, Post, PostKind, Timer, TimerKind
from bot.store.sessions.boards import Crowd, Entry
from bot.texts.catalogue import LANGUAGES, Texts

MOST = 4000
SESSION = GroupSession(
    id="abcdabcd",
    guild_id=21,
    channel_id=31,
    host_id=1,
    locale="en",
    plan=Plan(
        theme="boats *at* @everyone", style="Ink", required=("sea",), role_id=9, quota=3, session_seconds=9.0
    ),
    phase=Phase.PAINTING,
    round=2,
    paused=False,
    opened_at=1.0,
    collect_until=None,
    closed_at=None,
    board_id=None,
    boards=0,
    keeper_token=0,
    timers={TimerKind.ROUND: Timer(due_at=900.0), TimerKind.SESSION: Timer(due_at=9000.0)},
)
POST = Post(id=1, session_id="abcdabcd", kind=PostKind.SHEET, round=1, page=1, ballot=True)
CROWD = Crowd(
    painters=tuple((1000 + number, 3) for number in range(40)), waiting=2, running=1, unseen=4, late=2
)


def entries(count: int, **changed: Any) -> list[Entry]:
    values: dict[str, Any] = {"round": 1, "job_id": "a", "index": 0, "user_id": 11, "user_name": "M" * 40}
    values |= {
        "recipe": recipe(prompt="*" * 900),
        "artifact": "a.png",
        "spoiler": False,
        "votes": 0,
        **changed,
    }
    return [Entry(number=number, **values) for number in range(1, count + 1)]


def shown(session: GroupSession, texts: Texts) -> str:
    return board(session, CROWD, voters=5, texts=texts).text


@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_fits_a_message_in_every_language(language: str) -> None:
    texts = Texts(language)
    found: list[MessageContent] = [
        board(replace(SESSION, phase=phase), CROWD, voters=5, texts=texts) for phase in Phase
    ]
    found += [sheet(SESSION, POST, entries(count), unseen=2, late=2, texts=texts) for count in (0, 1, 20, 45)]
    still = replace(SESSION, timers={TimerKind.VOTE: Timer(due_at=None, left=120.0)})
    found.append(sheet(still, POST, entries(45)[:19], unseen=2, late=2, texts=texts))
    found.append(sheet(still, POST, [*entries(45)[1:]], unseen=2, late=2, texts=texts))
    found += [results(SESSION, POST, entries(20, votes=votes), voters=40, texts=texts) for votes in (0, 2)]
    for content in found:
        assert "{" not in content.text
        assert "@everyone" not in content.text
        assert len(content.text) <= MOST
        assert len({button.custom_id for button in content.buttons}) == len(content.buttons) <= 21
        assert len(content.rows) <= 5
    for change in ("open", "next", "pause", "resume", "extend", "host", "close"):
        assert "<@1>" in said_of_session({"change": change}, "<@1>", "<#2>", texts)


def test_the_board_says_what_goes_on() -> None:
    texts = Texts("en")
    said = shown(SESSION, texts)
    for words in (
        "Host: <@1>",
        "Style: Ink",
        "Every prompt must have these words: sea",
        "Members with <@&9> take part.",
        "Each person may paint 3 pictures in a round.",
        "Round 2 · everyone is painting",
        "The round ends <t:900:R>.",
        "The session ends <t:9000:R> at the latest.",
        "<@1000> 3/3",
        "and 15 more",
        "1 picture is being painted.",
        "2 pictures wait.",
        "4 pictures are withheld",
        "2 pictures came after the end of the round",
    ):
        assert words in said
    paused = replace(
        SESSION, paused=True, host_id=0, timers={TimerKind.ROUND: Timer(due_at=None, left=120.0)}
    )
    assert "paused" in shown(paused, texts)
    assert "Time left: 2 min" in shown(paused, texts)
    assert "any moderator may lead" in shown(paused, texts)
    assert "5 people have voted." in shown(replace(SESSION, phase=Phase.VOTING), texts)
    assert "ends" not in shown(replace(SESSION, phase=Phase.CLOSED), texts).replace("ended", "")


def test_a_ballot_shows_no_votes_and_its_sheet_has_a_button_for_each_picture() -> None:
    texts = Texts("en")
    ballot = sheet(SESSION, POST, entries(3, votes=4), unseen=0, texts=texts)
    assert [button.custom_id for button in ballot.buttons] == [
        *(f"vote:abcdabcd:1:{number}" for number in (1, 2, 3)),
        "group:abcdabcd:s1.1",
    ]
    assert "4 votes" not in ballot.text
    whole = sheet(SESSION, replace(POST, round=0, ballot=False), entries(3, votes=4), unseen=0, texts=texts)
    assert len(whole.buttons) == 1
    assert "4 votes" in whole.text
    assert "Round 1" in whole.text


def test_a_ballot_says_when_the_vote_ends_or_that_it_stands_still() -> None:
    def said(timer: Timer, **changed: Any) -> str:
        voting = replace(SESSION, phase=Phase.VOTING, timers={TimerKind.VOTE: timer}, **changed)
        return sheet(voting, POST, entries(2), unseen=0, texts=Texts("en")).text

    assert "The vote ends <t:900:R>." in said(Timer(due_at=900.0))
    paused = said(Timer(due_at=None, left=120.0), paused=True)
    assert "The session is paused: its clock has stopped.\nTime left: 2 min" in paused


def test_of_a_picture_that_is_no_longer_shown_a_sheet_has_the_number_alone() -> None:
    first, second = entries(2, recipe=recipe(prompt="a boat"), user_name="Mina")
    gone = replace(second, artifact=None, recipe=recipe(prompt="a secret"), user_name="Ravi")
    ballot = sheet(SESSION, POST, [first, gone], unseen=0, texts=Texts("en"))
    assert ballot.footer.splitlines()[1] == "**2** · no longer shown"
    assert "if you have voted for it, vote for another" in ballot.heading
    assert [button.label for button in ballot.buttons] == ["1", "My pictures"]
    assert ballot.pictures[0].alt == "AI-generated · 1: a boat"
    erased = sheet(SESSION, POST, [second], unseen=0, texts=Texts("en"))
    assert "vote for another" in erased.heading
    whole = sheet(SESSION, replace(POST, round=0, ballot=False), [gone], unseen=0, texts=Texts("en"))
    assert whole.footer == "**1** · Round 1 · no longer shown"
    assert whole.pictures == ()
    assert "vote for another" not in whole.heading


def test_a_ballot_names_no_painter_and_the_sheet_after_the_vote_does() -> None:
    painted = entries(2, user_name="Mina")
    ballot = sheet(SESSION, POST, painted, unseen=0, texts=Texts("en"))
    assert "Mina" not in ballot.text
    over = sheet(SESSION, replace(POST, ballot=False), painted, unseen=0, texts=Texts("en"))
    assert over.footer.count("Mina") == 2


@pytest.mark.parametrize(("rounds", "named"), [(1, False), (2, True)])
def test_the_end_of_several_rounds_names_who_got_the_most_votes(rounds: int, named: bool) -> None:
    one, other = entries(2, votes=2)
    painted = [one, replace(one, round=2, votes=1), replace(other, user_id=12, votes=2)]
    post = replace(POST, kind=PostKind.END, round=rounds)
    session = replace(SESSION, round=rounds)
    said = announcement(session, post, Texts("en"), entries=painted).text
    assert ("Most votes in all rounds: <@11> · 3 votes" in said) == named


def test_a_tie_is_called_a_tie() -> None:
    tied = entries(2, votes=2, user_name="Mina")
    said = results(SESSION, POST, [*tied, *entries(1, votes=1)], voters=5, texts=Texts("en")).text
    assert "**1st** · a tie · no. 1 of <@11> · no. 2 of <@11> · 2 votes" in said
    assert "**3rd** · no. 1" in said


def test_a_covered_picture_covers_its_sheet() -> None:
    for covered in (True, False):
        made = sheet(SESSION, POST, entries(2, spoiler=covered), unseen=0, texts=Texts("en"))
        assert made.pictures[0].spoiler is covered
