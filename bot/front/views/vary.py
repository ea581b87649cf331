"""The button that paints others like one picture."""

from __future__ import annotations

from collections.abc import Callable

from bot.domain.jobs import Descent, Recipe
from bot.front.answers.controls import Button
from bot.front.recipes.options import random_seed
from bot.front.recipes.variations import varied, varied_near
from bot.front.requests.intake import (
    accept,
    announce,
    check_offered,
    enqueue,
    parent_of,
    pressed_privately,
    repeatable,
)
from bot.front.services.services import Interaction


async def vary(interaction: Interaction, job_id: str, index: int) -> None:
    """Queue a job that starts from a picture of another job, with a new seed, as private as that job."""
    await _vary(interaction, job_id, index, varied)


async def vary_near(interaction: Interaction, job_id: str, index: int) -> None:
    """Queue a job of the same words and seed whose initial noise is a little changed."""
    await _vary(interaction, job_id, index, varied_near)


async def _vary(interaction: Interaction, job_id: str, index: int, how: Callable[..., Recipe]) -> None:
    parent = parent_of(interaction, job_id, Descent.VARIATION, index)
    origin = await accept(interaction, private=pressed_privately(interaction), parent=parent)
    recipe = how(await repeatable(interaction, job_id), index, seed=random_seed())
    check_offered(interaction, recipe)
    job = await enqueue(interaction, recipe, origin)
    await announce(interaction, job)


class VaryButton(Button, template=r"vary:(?P<job_id>[0-9a-z]+):(?P<index>[0-9])"):
    """Any person who sees a picture may ask for others like it; the new job and its message are theirs."""

    act = staticmethod(vary)
