"""The button that paints others like one picture."""

from __future__ import annotations

from bot.front.options import random_seed
from bot.front.parts import Interaction, Parts
from bot.front.requests import request_from
from bot.front.variations import varied
from bot.front.views.pressing import JobButton
from bot.jobs import Job, Recipe


async def vary(interaction: Interaction, job_id: str, index: int) -> None:
    """A new job started from one picture of another, with a new seed, shown as private as the first."""

    def recipe_from(job: Job, _parts: Parts) -> Recipe:
        return varied(job, index, seed=random_seed())

    await request_from(interaction, job_id, recipe_from)


class VaryButton(JobButton, template=r"vary:(?P<job>[0-9a-z]+):(?P<index>[0-9])"):
    """Anyone who sees a picture may ask for others like it; the new job and its message are theirs."""

    act = staticmethod(vary)
