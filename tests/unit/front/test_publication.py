"""Which results are held where they are published, for they were painted under another policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from recipes import job_of, origin

from bot.front.review_mode import is_too_open
from bot.holds import Outcome, Ruling
from bot.jobs import Job, Notes, Showing, State
from bot.levels import Level

SHOW, SPOILER, HOLD, WITHHOLD = Showing


def painted(level: Level, showing: Showing) -> Job:
    job = job_of(State.DONE)
    [image] = job.images
    return replace(job, images=(replace(image, showing=showing, notes=Notes(level=level)),))


@pytest.mark.parametrize(
    ("level", "showing", "said", "too_open"),
    [
        (Level.MILD, SHOW, None, False),
        (Level.MILD, SHOW, (SHOW, HOLD, HOLD), False),
        (Level.MILD, SHOW, (SPOILER, HOLD, HOLD), True),
        (Level.MILD, SPOILER, (SPOILER, HOLD, HOLD), False),
        (Level.EXTREME, SPOILER, (SHOW, SHOW, WITHHOLD), True),
        (Level.NONE, SHOW, (WITHHOLD, WITHHOLD, WITHHOLD), False),
    ],
)
def test_a_picture_is_held_where_it_would_have_been_shown_less_openly(
    level: Level, showing: Showing, said: Sequence[Showing] | None, too_open: bool
) -> None:
    here = replace(origin(2), policy={} if said is None else {"flagged": list(said)})
    assert is_too_open(painted(level, showing), here) is too_open


def test_what_moderators_of_the_same_server_decided_stands() -> None:
    job = replace(painted(Level.MILD, SHOW), ruling=Ruling(outcome=Outcome.SHOWN))
    here = replace(origin(2), policy={"flagged": ["hold", "hold", "hold"]})
    assert not is_too_open(job, here)
    assert is_too_open(job, replace(here, guild_id=99))
