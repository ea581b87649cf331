"""The level of a picture from a classifier's probabilities, and its configuration."""

from __future__ import annotations

import pytest

from bot.config import Config
from bot.domain.errors import ConfigurationError
from bot.domain.levels import Level, level_of
from sdjax_engine.request import PictureScores

LEVELS = {"drawing": Level.NONE, "swimwear": Level.MILD, "nude": Level.EXPLICIT, "gore": Level.EXTREME}


def level(*probabilities: float, threshold: float = 0.5) -> Level:
    scores = PictureScores(labels=tuple(LEVELS), probabilities=probabilities)
    return level_of(scores, LEVELS, threshold)


def test_it_is_the_worst_level_that_with_all_worse_ones_reaches_the_threshold() -> None:
    assert level(0.9, 0.1, 0.0, 0.0) is Level.NONE
    assert level(0.4, 0.6, 0.0, 0.0) is Level.MILD
    assert level(0.4, 0.2, 0.4, 0.0) is Level.MILD
    assert level(0.2, 0.2, 0.3, 0.3) is Level.EXPLICIT
    assert level(0.1, 0.1, 0.1, 0.7) is Level.EXTREME


def test_a_lower_threshold_is_stricter() -> None:
    assert level(0.7, 0.0, 0.3, 0.0) is Level.NONE
    assert level(0.7, 0.0, 0.3, 0.0, threshold=0.3) is Level.EXPLICIT
    assert level(0.0, 0.0, 0.0, 1.0, threshold=1.0) is Level.EXTREME


def test_one_value_holds_for_all_levels_and_three_for_one_each() -> None:
    [model] = Config.parse({"models": [{"flagged": "hold"}]}).models
    assert (model.flagged, model.flagged_age_restricted) == (("hold",) * 3, ("spoiler",) * 3)
    assert model.flagged_spoiler == ()
    for empty in ("", []):
        assert Config.parse({"models": [{"flagged_spoiler": empty}]}).models[0].flagged_spoiler == ()
    assert Config.parse({"models": [{"flagged_spoiler": "show"}]}).models[0].flagged_spoiler == ("show",) * 3
    [model] = Config.parse({"models": [{"flagged": ["show", "spoiler", "withhold"]}]}).models
    assert model.flagged == ("show", "spoiler", "withhold")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"flagged": ["show", "withhold"]}, "one value is wanted, or three, for the levels mild, explicit"),
        ({"flagged_spoiler": ["show"]}, "one value is wanted, or three, for the levels mild, explicit"),
        ({"flagged": "hide"}, "“hide” is none of 'withhold', 'hold', 'spoiler' or 'show'"),
        ({"picture_levels": {"nsfw": "explicit"}}, "without a picture_classifier no label has a level"),
        (
            {"picture_classifier": "a/b", "picture_levels": {"nsfw": "bad"}},
            "“bad” is none of 'none', 'mild', 'explicit' or 'extreme'",
        ),
        ({"picture_threshold": 0}, "more than 0 is wanted"),
    ],
)
def test_a_mistake_in_the_configuration_is_one_sentence(values: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Config.parse({"models": [values]})
    assert said in str(caught.value)
