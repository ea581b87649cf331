"""Suggestions while a person types: each keystroke is a request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import discord
import pytest

from bot.domain.jobs import Job
from bot.front.commands.cancel import suggest_jobs
from bot.moderation.limits import SUGGESTIONS, Pace, Rates, Sender
from bot.texts.catalogue import Texts


@pytest.mark.parametrize("moderating", [False, True])
async def test_a_keystroke_reads_the_requests_of_others_for_those_alone_who_may_cancel_them(
    moderating: bool,
) -> None:
    asked: list[dict[str, int]] = []

    async def active(**which: int) -> list[Job]:
        asked.append(which)
        return []

    services = SimpleNamespace(
        store=SimpleNamespace(jobs=SimpleNamespace(active=active)),
        texts=lambda _interaction: Texts.for_locale("en"),
        clock=lambda: 0.0,
    )
    interaction = SimpleNamespace(
        client=SimpleNamespace(services=services),
        user=SimpleNamespace(id=7),
        guild_id=8,
        permissions=discord.Permissions(manage_messages=moderating),
    )
    assert await suggest_jobs(cast("Any", interaction), "") == []
    assert ["guild_id" in each for each in asked] == ([False, True] if moderating else [False])
    assert all(each["limit"] <= 50 for each in asked)


def test_a_person_who_types_without_end_gets_no_more_suggestions_for_a_while() -> None:
    now = [0.0]
    pace = Pace(Rates(), clock=lambda: now[0])
    me, other = (Sender(user_id=number, guild_id=None) for number in (1, 2))
    assert [pace.may_suggest(me) for _ in range(SUGGESTIONS + 1)] == [True] * SUGGESTIONS + [False]
    assert pace.may_suggest(other)
    now[0] += 1
    assert pace.may_suggest(me)
