"""Values and a clock for tests of the queue."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from bot.jobs import Origin, Recipe
from bot.store import Store
from sdjax_engine.request import Sampler

TTL = 60.0
OpenStore = Callable[[], Awaitable[Store]]

RECIPE = Recipe(
    prompt="a red circle on a white background",
    seed=7,
    num_inference_steps=10,
    guidance_scale=5.0,
    sampler=Sampler.DPMPP_2M_KARRAS,
    width=128,
    height=128,
    model="demo",
)
ORIGIN = Origin(
    interaction_id=1,
    interaction_token="a-token",
    token_expires_at=1_000_900.0,
    application_id=5,
    user_id=11,
    guild_id=21,
    channel_id=31,
    locale="ko",
    private=False,
)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def recipe(**values: Any) -> Recipe:
    return replace(RECIPE, **values)


def origin(interaction_id: int, **values: Any) -> Origin:
    return replace(ORIGIN, interaction_id=interaction_id, **values)
