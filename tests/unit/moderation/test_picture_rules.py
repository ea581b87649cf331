"""How pictures are shown, by their level, their channel and its policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bot.app.worker import rules_of
from bot.config.models import ModelConfig
from bot.config.policy import PolicyConfig
from bot.domain.jobs import Showing
from bot.domain.levels import Level
from bot.moderation.pictures import PictureRules, stricter
from sdjax_engine.request import SafetyScores
from sdjax_engine.scores import PictureScores

SHOW, SPOILER, HOLD, WITHHOLD = Showing
RULES = PictureRules(
    levels={"drawing": Level.NONE, "bare": Level.EXPLICIT, "gore": Level.EXTREME},
    elsewhere=(SPOILER, HOLD, WITHHOLD),
    age_restricted=(SHOW, SPOILER, WITHHOLD),
)
FLAGGED, FINE = (SafetyScores(flagged=flagged) for flagged in (True, False))


def scores(**by_label: float) -> PictureScores:
    return PictureScores(labels=tuple(by_label), probabilities=tuple(by_label.values()))


GORE = scores(drawing=0.1, bare=0.1, gore=0.8)
DRAWING = scores(drawing=0.9, bare=0.1, gore=0.0)


@pytest.mark.parametrize(
    ("safety", "classified", "level"),
    [
        (None, None, Level.NONE),
        (FINE, None, Level.NONE),
        (FLAGGED, None, Level.EXPLICIT),
        (FINE, DRAWING, Level.NONE),
        (FINE, GORE, Level.EXTREME),
        (FLAGGED, DRAWING, Level.EXPLICIT),
        (FLAGGED, GORE, Level.EXTREME),
    ],
)
def test_the_worse_of_two_verdicts_counts(
    safety: SafetyScores | None, classified: PictureScores | None, level: Level
) -> None:
    assert RULES.level(safety, classified) is level


def test_the_channel_decides_unless_a_policy_does() -> None:
    def shown(level: Level, said: tuple[Showing, Showing, Showing] | None = None, *, adult: bool) -> Showing:
        return RULES.showing(level, said, age_restricted=adult)

    assert [shown(level, adult=False) for level in Level] == [SHOW, SPOILER, HOLD, WITHHOLD]
    assert [shown(level, adult=True) for level in Level] == [SHOW, SHOW, SPOILER, WITHHOLD]
    policy = (HOLD, WITHHOLD, WITHHOLD)
    assert [shown(level, policy, adult=True) for level in Level] == [SHOW, HOLD, WITHHOLD, WITHHOLD]


def test_no_policy_is_milder_than_the_operator_lets_it_be() -> None:
    everything = (SHOW, SHOW, SHOW)
    assert RULES.showings(everything, age_restricted=False) == RULES.elsewhere
    assert RULES.showings(everything, age_restricted=True) == RULES.age_restricted
    free = replace(RULES, mildest=(SHOW, SHOW, HOLD), mildest_age_restricted=everything)
    assert free.showings(everything, age_restricted=False) == (SHOW, SHOW, HOLD)
    assert free.showings(everything, age_restricted=True) == everything
    assert free.showings(None, age_restricted=False) == RULES.elsewhere


def test_the_operators_bounds_come_before_their_policy_and_that_before_the_model() -> None:
    def rules(**policy: Any) -> PictureRules:
        return rules_of(ModelConfig(flagged=("hold",) * 3), PolicyConfig(**policy))

    shown, covered = ("show",) * 3, ("spoiler",) * 3
    assert rules().mildest == (HOLD,) * 3
    assert rules(flagged=covered).mildest == (SPOILER,) * 3
    assert rules(flagged=covered, bounds={"flagged": shown}).mildest == (SHOW,) * 3
    assert rules(bounds={"flagged": shown}).elsewhere == (HOLD,) * 3
    assert rules(bounds={"flagged": ("withhold",) * 3}).elsewhere == (WITHHOLD,) * 3


def test_without_configuration_flagged_pictures_are_withheld_and_covered_among_adults() -> None:
    plain = PictureRules()
    level = plain.level(FLAGGED, None)
    assert plain.showing(level, None, age_restricted=False) is WITHHOLD
    assert plain.showing(level, None, age_restricted=True) is SPOILER


def test_the_strictest_of_several_is_found() -> None:
    assert stricter(SHOW, HOLD, SPOILER) is HOLD
