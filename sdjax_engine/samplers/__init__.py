"""Samplers as tables of numbers: the registry, and the table of a request.

Only `step.py`, which runs on the device, imports JAX.
"""

from __future__ import annotations

from sdjax_engine.samplers.registry import SAMPLERS, default_sampler, pipeline_config, plan
from sdjax_engine.samplers.schedules import SchedulerConfig
from sdjax_engine.samplers.tables import MAX_ROWS, ROW, Table

__all__ = [
    "MAX_ROWS",
    "ROW",
    "SAMPLERS",
    "SchedulerConfig",
    "Table",
    "default_sampler",
    "pipeline_config",
    "plan",
]
