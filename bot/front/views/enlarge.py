"""The button that paints one picture again in a larger size, started from what is there."""

from __future__ import annotations

from bot.front.options import find_offer
from bot.front.parts import Interaction, parts_of
from bot.front.requests import request
from bot.front.variations import enlarged
from bot.front.views.pressing import JobButton


async def enlarge(interaction: Interaction, job_id: str, index: int) -> None:
    """A new job of the same words and seed in the next larger size, shown as private as the first."""
    parts = parts_of(interaction)
    job = await parts.store.job(job_id)
    offer = find_offer(job.recipe.model, parts.offers)
    recipe = enlarged(job, index, offer)
    offer.check(recipe.request(0))
    await request(interaction, recipe, private=job.origin.private)


class EnlargeButton(JobButton, template=r"enlarge:(?P<job>[0-9a-z]+):(?P<index>[0-9])"):
    """Anyone who sees a picture may ask for it larger; the new job and its message are theirs."""

    act = staticmethod(enlarge)
