"""Recipes that start from a finished picture; no Discord here."""

from __future__ import annotations

from dataclasses import replace

from bot.errors import UserMistake
from bot.jobs import Job, Recipe
from bot.sizes import larger_size
from sdjax_engine.request import Offer

VARY_STRENGTH = 0.5  # the composition stays, the details change
ENLARGE_STRENGTH = 0.4  # the picture stays, and gains the detail of the larger size


def varied(job: Job, index: int, *, seed: int) -> Recipe:
    """Return a recipe for variants of the picture at `index`; raises UserMistake without that picture."""
    return _from(job, index, strength=VARY_STRENGTH, seed=seed)


def enlarged(job: Job, index: int, offer: Offer) -> Recipe:
    """Return a recipe for the picture at `index` in the next larger size; raises UserMistake without one."""
    size = larger_size((job.recipe.width, job.recipe.height), offer)
    if size is None:
        raise UserMistake("no_larger_size", model=offer.model)
    seed = job.recipe.request(index).seed
    recipe = _from(job, index, strength=ENLARGE_STRENGTH, seed=seed)
    return replace(recipe, width=size[0], height=size[1], variants=1)


def _from(job: Job, index: int, *, strength: float, seed: int) -> Recipe:
    found = [image.artifact for image in job.images if image.index == index and image.artifact]
    if not found:
        raise UserMistake("no_picture")
    return replace(job.recipe, init_image=found[0], mask_image=None, strength=strength, seed=seed)
