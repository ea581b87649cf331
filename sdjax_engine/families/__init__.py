"""Families of checkpoints: a folder for each, and a line in `FAMILIES`.

Everything outside this folder sees a family through the protocols of `family.py`.
"""

from __future__ import annotations

from sdjax_engine.families.family import Family
from sdjax_engine.families.flux2_klein import Flux2Klein
from sdjax_engine.families.stable_diffusion import StableDiffusion
from sdjax_engine.families.stable_diffusion_3 import StableDiffusion3
from sdjax_engine.families.z_image import ZImage

FAMILIES: tuple[Family, ...] = (StableDiffusion(), ZImage(), Flux2Klein(), StableDiffusion3())
"""All families; the first that knows a checkpoint reads it."""


def pipelines() -> dict[str, Family]:
    """Return the family of each of the reference's classes that can be read."""
    return {pipeline: family for family in FAMILIES for pipeline in family.pipelines}
