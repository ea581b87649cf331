"""The button that paints others like one picture."""

from __future__ import annotations

from bot.front.options import find_offer, random_seed
from bot.front.parts import Interaction, parts_of
from bot.front.requests import request
from bot.front.variations import varied
from bot.front.views.pressing import JobButton


async def vary(interaction: Interaction, job_id: str, index: int) -> None:
    """A new job started from one picture of another, with a new seed, shown as private as the first."""
    parts = parts_of(interaction)
    job = await parts.store.job(job_id)
    recipe = varied(job, index, seed=random_seed())
    find_offer(recipe.model, parts.offers).check(recipe.request(0))
    await request(interaction, recipe, private=job.origin.private)


class VaryButton(JobButton, template=r"vary:(?P<job>[0-9a-z]+):(?P<index>[0-9])"):
    """Anyone who sees a picture may ask for others like it; the new job and its message are theirs."""

    act = staticmethod(vary)
