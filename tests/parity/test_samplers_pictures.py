"""Samplers that start from a picture, or keep a part of it, against the reference's schedulers."""

from __future__ import annotations

import numpy as np
import pytest
from sampler_reference import (
    EVERYTHING,
    Figures,
    Reference,
    config_for,
    paint_tables,
    relative_difference,
)

from sdjax_engine.request import Sampler
from sdjax_engine.samplers import plan

pytestmark = [
    pytest.mark.parity,
    # The reference converts torch tensors by NumPy 2, which warns about torch's `__array__`.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
]

HALF = np.tile(np.array([0, 1, 0, 1], np.float32).reshape(4, 1), (4, 1, 4))
TOLERANCE = 1e-4
WISHES = [
    (20, 0.05),  # one step left
    (20, 0.1),
    (20, 0.3),
    (20, 0.75),
    (20, 0.96),  # all but one
    (20, 1.0),
    (3, 0.4),
    (3, 0.7),
    (1, 1.0),
]
"""Steps and strengths."""


@pytest.mark.parametrize("sampler", Sampler)
@pytest.mark.parametrize("spacing", ["leading", "linspace", "trailing"])
@pytest.mark.parametrize("mask", [EVERYTHING, HALF], ids=["all-anew", "half-kept"])
def test_start_pictures_are_painted_as_in_the_references_pipelines(
    reference: Reference, figures: Figures, sampler: Sampler, spacing: str, mask: np.ndarray
) -> None:
    config = config_for(sampler, timestep_spacing=spacing)
    scheduler = reference.scheduler(sampler, config)
    tables = [plan(sampler, steps, config, strength=strength) for steps, strength in WISHES]
    named = sampler, "from a picture" if mask is EVERYTHING else "from a picture, half of it kept"
    for (steps, strength), ours in zip(WISHES, paint_tables(tables, mask=mask), strict=True):
        theirs = reference.repaint(scheduler, steps, strength=strength, mask=mask)
        difference = relative_difference(ours, theirs)
        figures[named] = max(figures.get(named, 0.0), difference)
        assert difference < TOLERANCE, f"{steps} steps, strength {strength}"
