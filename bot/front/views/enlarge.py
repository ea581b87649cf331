"""The button that paints one picture in a larger size, starting from that picture."""

from __future__ import annotations

from bot.domain.jobs import Descent
from bot.front.answers.controls import Button
from bot.front.recipes.options import find_offer
from bot.front.recipes.variations import enlarged
from bot.front.requests.intake import (
    accept,
    announce,
    check_offered,
    enqueue,
    parent_of,
    pressed_privately,
    repeatable,
)
from bot.front.services.services import Interaction, services_of


async def enlarge(interaction: Interaction, job_id: str, index: int) -> None:
    """Queue a job of the same words and seed in the next larger size, shown as private as the first."""
    parent = parent_of(interaction, job_id, Descent.ENLARGEMENT, index)
    origin = await accept(interaction, private=pressed_privately(interaction), parent=parent)
    earlier = await repeatable(interaction, job_id)
    recipe = enlarged(earlier, index, find_offer(earlier.recipe.model, services_of(interaction).offers))
    check_offered(interaction, recipe)
    job = await enqueue(interaction, recipe, origin)
    await announce(interaction, job)


class EnlargeButton(Button, template=r"enlarge:(?P<job_id>[0-9a-z]+):(?P<index>[0-9])"):
    """Any person who sees a picture may ask for it larger; the new job and its message are theirs."""

    act = staticmethod(enlarge)
