"""Recipes that start from a finished picture; no Discord here."""

from __future__ import annotations

from dataclasses import replace

from bot.domain.errors import UserMistake
from bot.domain.jobs import Job, Recipe, lacking
from bot.domain.sizes import larger_size
from sdjax_engine.request import Offer, Variation

VARY_STRENGTH = 0.5  # keeps the composition, changes the details
NEAR_STRENGTH = 0.15  # of the noise: keeps the picture, changes small things
ENLARGE_STRENGTH = 0.4  # keeps the picture, adds details in the larger size


def varied(job: Job, index: int, *, seed: int) -> Recipe:
    """Return a recipe for variants of the picture at `index`; raises UserMistake without that picture."""
    recipe = replace(job.recipe, seed=seed, variations=())
    return _started(recipe, picture_of(job, index), strength=VARY_STRENGTH)


def varied_near(job: Job, index: int, *, seed: int) -> Recipe:
    """Return a recipe for pictures near the one at `index`: its seed, its initial noise a little changed.

    Raises UserMistake without that picture. A picture that was varied too often is refused by its offer.
    """
    picture_of(job, index)
    recipe = job.recipe.from_image(index)
    near = Variation(seed=seed, strength=NEAR_STRENGTH)
    return replace(recipe, variations=(*recipe.variations, near))


def enlarged(job: Job, index: int, offer: Offer) -> Recipe:
    """Return a recipe for the picture at `index` in the next larger size; raises UserMistake without one."""
    size = larger_size(job.recipe.picture_size, offer)
    if size is None:
        raise UserMistake("no_larger_size", model=offer.model)
    recipe = _started(job.recipe.from_image(index), picture_of(job, index), strength=ENLARGE_STRENGTH)
    return replace(recipe, width=size[0], height=size[1], variants=1)


def picture_of(job: Job, index: int) -> str:
    """Return the file of the picture at `index`; raises UserMistake without that picture."""
    found = [image.artifact for image in job.images if image.index == index and image.artifact]
    if not found:
        raise UserMistake(lacking(image for image in job.images if image.index == index))
    return found[0]


def _started(recipe: Recipe, picture: str, *, strength: float) -> Recipe:
    width, height = recipe.picture_size
    started = replace(recipe, width=width, height=height, second_pass=None)
    return replace(started, init_image=picture, mask_image=None, strength=strength)
