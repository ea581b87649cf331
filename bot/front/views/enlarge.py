"""The button that paints one picture again in a larger size, started from what is there."""

from __future__ import annotations

from bot.front.options import find_offer
from bot.front.parts import Interaction, Parts
from bot.front.requests import request_from
from bot.front.variations import enlarged
from bot.front.views.pressing import JobButton
from bot.jobs import Job, Recipe


async def enlarge(interaction: Interaction, job_id: str, index: int) -> None:
    """A new job of the same words and seed in the next larger size, shown as private as the first."""

    def recipe_from(job: Job, parts: Parts) -> Recipe:
        return enlarged(job, index, find_offer(job.recipe.model, parts.offers))

    await request_from(interaction, job_id, recipe_from)


class EnlargeButton(JobButton, template=r"enlarge:(?P<job>[0-9a-z]+):(?P<index>[0-9])"):
    """Anyone who sees a picture may ask for it larger; the new job and its message are theirs."""

    act = staticmethod(enlarge)
