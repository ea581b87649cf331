"""How pictures are shown, by their level, their channel and its policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bot.app.worker import rules_of
from bot.config.models import ModelConfig
from bot.config.policy import PolicyConfig
from bot.domain.channels import ChannelKind
from bot.domain.jobs import Showing, Showings
from bot.domain.levels import Level
from bot.moderation.pictures import PictureRules, stricter
from sdjax_engine.request import PictureScores, SafetyScores

SHOW, SPOILER, HOLD, WITHHOLD = Showing
RULES = PictureRules(
    levels={"drawing": Level.NONE, "bare": Level.EXPLICIT, "gore": Level.EXTREME},
    own={
        ChannelKind.PLAIN: (SPOILER, HOLD, WITHHOLD),
        ChannelKind.SPOILER: (SHOW, SPOILER, HOLD),
        ChannelKind.AGE_RESTRICTED: (SHOW, SPOILER, WITHHOLD),
    },
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
    def shown(kind: ChannelKind, said: Showings | None = None) -> list[Showing]:
        return [RULES.showing(level, said, kind) for level in Level]

    assert shown(ChannelKind.PLAIN) == [SHOW, SPOILER, HOLD, WITHHOLD]
    assert shown(ChannelKind.SPOILER) == [SHOW, SHOW, SPOILER, HOLD]
    assert shown(ChannelKind.AGE_RESTRICTED) == [SHOW, SHOW, SPOILER, WITHHOLD]
    policy = (HOLD, WITHHOLD, WITHHOLD)
    assert shown(ChannelKind.AGE_RESTRICTED, policy) == [SHOW, HOLD, WITHHOLD, WITHHOLD]


def test_no_policy_is_milder_than_the_operator_lets_it_be() -> None:
    everything = (SHOW, SHOW, SHOW)
    for kind in ChannelKind:
        assert RULES.showings(everything, kind) == RULES.own[kind]
    plain, adults = ChannelKind.PLAIN, ChannelKind.AGE_RESTRICTED
    free = replace(RULES, mildest={plain: (SHOW, SHOW, HOLD), adults: everything})
    assert free.showings(everything, plain) == (SHOW, SHOW, HOLD)
    assert free.showings(everything, adults) == everything
    assert free.showings(None, plain) == RULES.own[plain]


def test_the_operators_bounds_come_before_their_policy_and_that_before_the_model() -> None:
    def rules(**policy: Any) -> PictureRules:
        return rules_of(ModelConfig(flagged=("hold",) * 3), PolicyConfig(**policy))

    shown, covered = ("show",) * 3, ("spoiler",) * 3
    plain = ChannelKind.PLAIN
    assert rules().mildest[plain] == (HOLD,) * 3
    assert rules(flagged=covered).mildest[plain] == (SPOILER,) * 3
    assert rules(flagged=covered, bounds={"flagged": shown}).mildest[plain] == (SHOW,) * 3
    assert rules(bounds={"flagged": shown}).own[plain] == (HOLD,) * 3
    assert rules(bounds={"flagged": ("withhold",) * 3}).own[plain] == (WITHHOLD,) * 3


def test_spoiler_channels_are_plain_ones_until_a_key_says_otherwise() -> None:
    def rules(policy: dict[str, Any], **model: Any) -> PictureRules:
        return rules_of(ModelConfig(flagged=("hold",) * 3, **model), PolicyConfig(**policy))

    spoiler, plain, shown = ChannelKind.SPOILER, ChannelKind.PLAIN, ("show",) * 3
    assert rules({}).own[spoiler] == rules({}).mildest[spoiler] == (HOLD,) * 3
    opened = rules({}, flagged_spoiler=("spoiler",) * 3)
    assert (opened.own[spoiler], opened.own[plain]) == ((SPOILER,) * 3, (HOLD,) * 3)
    assert rules({"bounds": {"flagged": shown}}).mildest[spoiler] == (SHOW,) * 3
    cut = rules({"bounds": {"flagged": shown, "flagged_spoiler": ("hold",) * 3}}, flagged_spoiler=shown)
    assert cut.own[spoiler] == cut.mildest[spoiler] == (HOLD,) * 3


def test_without_configuration_flagged_pictures_are_withheld_and_covered_among_adults() -> None:
    plain = PictureRules()
    level = plain.level(FLAGGED, None)
    found = [plain.showing(level, None, kind) for kind in ChannelKind]
    assert found == [WITHHOLD, WITHHOLD, SPOILER]


def test_the_strictest_of_several_is_found() -> None:
    assert stricter(SHOW, HOLD, SPOILER) is HOLD
