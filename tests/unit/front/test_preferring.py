"""The precedence of options, and options that do not suit a request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.config import Config
from bot.domain.errors import UserMistake
from bot.front.recipes.options import Asked, check, filled_in, parse_by_any
from sdjax_engine.errors import InvalidRequest

SMALL = Config().models[0].offer
LARGE = replace(SMALL, model="large", sizes=((512, 512),))
OFFERS = (SMALL, LARGE)


@pytest.mark.parametrize("typed", [{"size": "512x512"}, {"size": "1:1", "hires": "2x"}, {"lora": "ink"}])
def test_what_is_typed_for_a_saved_model_is_checked_against_that_model(typed: dict[str, str]) -> None:
    offers = (SMALL, replace(LARGE, sizes=((512, 512), (1024, 1024)), loras=("ink",)))
    asked = Asked(prompt="a boat", **typed)
    parse_by_any(asked, offers)
    filled, unsuitable = filled_in(asked, {"model": "large", "steps": 12}, offers)
    assert (filled.model, filled.steps, unsuitable) == ("large", 12, [])


@pytest.mark.parametrize(
    "options", [{"size": "banana"}, {"steps": 0}, {"sampler": "magic"}, {"model": "gone"}]
)
def test_options_that_no_request_can_have_are_refused(options: dict[str, object]) -> None:
    with pytest.raises((InvalidRequest, UserMistake)):
        check(options, OFFERS)
    check({"model": "large", "size": "512x512"}, OFFERS)
