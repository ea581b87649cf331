"""Suggestions while a person types: each keystroke is a request."""

from __future__ import annotations

from bot.moderation.limits import SUGGESTIONS, Pace, Rates, Sender


def test_a_person_who_types_without_end_gets_no_more_suggestions_for_a_while() -> None:
    now = [0.0]
    pace = Pace(Rates(), clock=lambda: now[0])
    me, other = (Sender(user_id=number, guild_id=None) for number in (1, 2))
    assert [pace.may_suggest(me) for _ in range(SUGGESTIONS + 1)] == [True] * SUGGESTIONS + [False]
    assert pace.may_suggest(other)
    now[0] += 1
    assert pace.may_suggest(me)
