"""Scheduler configs of checkpoints for the tests of samplers."""

from __future__ import annotations

from typing import Any

from sdjax_engine.request import Sampler
from sdjax_engine.samplers import SAMPLERS

SD: dict[str, Any] = {
    "_class_name": "PNDMScheduler",
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "steps_offset": 1,
    "set_alpha_to_one": True,
}
FLOW: dict[str, Any] = {"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0}
ON_NOISE = [sampler for sampler in Sampler if not SAMPLERS[sampler].predicts_flow]
"""The samplers for networks that predict noise, v or the picture."""


def config_for(sampler: Sampler) -> dict[str, Any]:
    """The scheduler config of a checkpoint that the sampler suits."""
    return FLOW if SAMPLERS[sampler].predicts_flow else SD
