"""The precedence of options, and options that do not suit a request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.config import Config
from bot.domain.errors import UserMistake
from bot.front.recipes.options import Asked, parse_by_any
from bot.front.recipes.preferences import check, filled_in, nearest
from sdjax_engine.errors import InvalidRequest

SMALL = Config().models[0].offer
LARGE = replace(SMALL, model="large", sizes=((512, 512),))
OFFERS = (SMALL, LARGE)


def test_the_most_specific_option_applies_option_by_option() -> None:
    mine, channel, server = {"steps": 30}, {"steps": 20, "size": "1:1"}, {"steps": 10, "guidance": 7.0}
    assert nearest([mine, channel, server]) == {"steps": 30, "size": "1:1", "guidance": 7.0}


def test_an_option_of_the_command_takes_precedence() -> None:
    options = {"steps": 30, "guidance": 7.0, "negative_prompt": "fog"}
    asked, unsuitable = filled_in(Asked(prompt="a boat", steps=5), options, OFFERS)
    assert (asked.steps, asked.guidance, asked.negative_prompt) == (5, 7.0, "fog")
    assert unsuitable == []


def test_preferences_unsuitable_for_the_model_are_left_out_and_named() -> None:
    options = {"model": "demo", "size": "128x128", "steps": 12}
    asked, unsuitable = filled_in(Asked(prompt="a boat", model="large"), options, OFFERS)
    assert (asked.model, asked.size, asked.steps) == ("large", None, 12)
    assert unsuitable == ["size"]


@pytest.mark.parametrize("typed", [{"size": "512x512"}, {"size": "1:1", "hires": "2x"}, {"lora": "ink"}])
def test_what_is_typed_for_a_saved_model_is_checked_against_that_model(typed: dict[str, str]) -> None:
    offers = (SMALL, replace(LARGE, sizes=((512, 512), (1024, 1024)), loras=("ink",)))
    asked = Asked(prompt="a boat", **typed)
    parse_by_any(asked, offers)
    filled, unsuitable = filled_in(asked, {"model": "large", "steps": 12}, offers)
    assert (filled.model, filled.steps, unsuitable) == ("large", 12, [])


def test_a_model_that_is_gone_is_left_out() -> None:
    asked, unsuitable = filled_in(Asked(prompt="a boat"), {"model": "gone", "steps": 12}, OFFERS)
    assert (asked.model, asked.steps, unsuitable) == (None, 12, ["model"])


@pytest.mark.parametrize(
    "options", [{"size": "banana"}, {"steps": 0}, {"sampler": "magic"}, {"model": "gone"}]
)
def test_options_that_no_request_can_have_are_refused(options: dict[str, object]) -> None:
    with pytest.raises((InvalidRequest, UserMistake)):
        check(options, OFFERS)
    check({"model": "large", "size": "512x512"}, OFFERS)
