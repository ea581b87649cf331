"""From a finished picture's recipe to that of a picture started from it; no Discord here."""

from __future__ import annotations

from dataclasses import replace

from bot.errors import UserMistake
from bot.jobs import Job, Recipe, larger_size
from sdjax_engine.request import Offer

VARY_STRENGTH = 0.5  # the composition stays, the details change
ENLARGE_STRENGTH = 0.4  # what is there stays, and gains the detail that the larger size has room for


def varied(job: Job, index: int, *, seed: int) -> Recipe:
    """As many pictures as the job has, each like its picture at `index`. Raises UserMistake without that."""
    return _from(job, index, strength=VARY_STRENGTH, seed=seed)


def enlarged(job: Job, index: int, offer: Offer) -> Recipe:
    """The job's picture at `index` in the next larger size; raises UserMistake where there is none."""
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
