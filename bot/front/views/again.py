"""The button that paints the same with a new seed."""

from __future__ import annotations

from dataclasses import replace

from bot.front.options import find_offer, random_seed
from bot.front.parts import Interaction, parts_of
from bot.front.requests import request
from bot.front.views.pressing import JobButton


async def paint_again(interaction: Interaction, job_id: str) -> None:
    """A new job of the same recipe with a new seed, shown in a new message as private as the first."""
    parts = parts_of(interaction)
    job = await parts.store.job(job_id)
    offer = find_offer(job.recipe.model, parts.offers)
    recipe = replace(job.recipe, seed=random_seed())
    offer.check(recipe.request(0))  # what the model offers may have changed since
    await request(interaction, recipe, private=job.origin.private)


class AgainButton(JobButton, template=r"again:(?P<job>[0-9a-z]+)"):
    """Anyone who sees a picture may ask for another like it; the new job and its message are theirs."""

    act = staticmethod(paint_again)
