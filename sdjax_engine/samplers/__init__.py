"""Samplers as tables of numbers: the registry, and the table of a request.

Only `step.py`, which runs on the device, imports JAX.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.request import Sampler
from sdjax_engine.samplers.config import SchedulerConfig, unchosen_keys
from sdjax_engine.samplers.ddim import DDIM
from sdjax_engine.samplers.ddpm import DDPM
from sdjax_engine.samplers.dpmpp_2m import DPMpp2M, DPMpp2MKarras, DPMpp2MSDE, DPMpp2MSDEKarras
from sdjax_engine.samplers.dpmpp_sde import DPMppSDE
from sdjax_engine.samplers.euler import Euler
from sdjax_engine.samplers.euler_ancestral import EulerAncestral
from sdjax_engine.samplers.flow_euler import FlowEuler
from sdjax_engine.samplers.heun import Heun
from sdjax_engine.samplers.lcm import LCM
from sdjax_engine.samplers.pndm import PNDM
from sdjax_engine.samplers.tables import MAX_ROWS, ROW, Table
from sdjax_engine.samplers.tcd import TCD
from sdjax_engine.samplers.unipc import UniPC

SAMPLERS: Mapping[Sampler, type[SchedulerConfig]] = MappingProxyType(
    {
        Sampler.DDIM: DDIM,
        Sampler.PNDM: PNDM,
        Sampler.EULER: Euler,
        Sampler.EULER_ANCESTRAL: EulerAncestral,
        Sampler.DPMPP_2M: DPMpp2M,
        Sampler.DPMPP_2M_KARRAS: DPMpp2MKarras,
        Sampler.DPMPP_2M_SDE: DPMpp2MSDE,
        Sampler.DPMPP_2M_SDE_KARRAS: DPMpp2MSDEKarras,
        Sampler.DPMPP_SDE: DPMppSDE,
        Sampler.HEUN: Heun,
        Sampler.UNIPC: UniPC,
        Sampler.LCM: LCM,
        Sampler.TCD: TCD,
        Sampler.DDPM: DDPM,
        Sampler.FLOW_EULER: FlowEuler,
    }
)

CORRECTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "StableDiffusionPipeline": {"steps_offset": 1, "clip_sample": False},
        "StableDiffusionImg2ImgPipeline": {"steps_offset": 1, "clip_sample": False},
        "StableDiffusionInpaintPipeline": {"steps_offset": 1, "skip_prk_steps": True},
    }
)
"""The scheduler settings that a reference pipeline overrides, by the pipeline's class name."""


def plan(
    sampler: Sampler,
    num_inference_steps: int,
    scheduler_config: Mapping[str, Any],
    *,
    strength: float | None = None,
) -> Table:
    """Return the table of `sampler` for `num_inference_steps` steps on the schedule of a checkpoint.

    `scheduler_config` is the checkpoint's `scheduler_config.json`; it may name another scheduler. With a
    `strength` from 0 to 1 the table starts from a picture: this share of the steps is left, as in the
    reference's image-to-image pipelines, and at least one step, where the reference raises an error.
    Raises `InvalidRequest` for more steps than trained timesteps, and `UnreadableCheckpoint` for a value of
    the config that the sampler does not support.
    """
    config = SAMPLERS[sampler].read(scheduler_config)
    if not 1 <= num_inference_steps <= config.num_train_timesteps:
        raise InvalidRequest("steps", value=num_inference_steps, limit=config.num_train_timesteps)
    if strength is None:
        return _table(config, num_inference_steps, 0)
    if not 0 <= strength <= 1:
        raise InvalidRequest("strength", value=strength)
    left = max(1, int(num_inference_steps * strength))
    return _table(config, num_inference_steps, num_inference_steps - left).on_picture()


@lru_cache(maxsize=256)
def _table(config: SchedulerConfig, num_inference_steps: int, begin: int) -> Table:
    # The table raises for values that are not finite.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return config.table(num_inference_steps, begin=begin)


def default_sampler(scheduler_config: Mapping[str, Any]) -> Sampler:
    """Return the sampler that the checkpoint names; raises `UnreadableCheckpoint` for unknown names."""
    name = str(scheduler_config.get("_class_name")).removeprefix("Flax").replace("Parallel", "")
    if name == DPMpp2M.reference:
        return _multistep(scheduler_config)
    for sampler, config in SAMPLERS.items():
        if config.reference == name:
            return sampler
    known = ", ".join(dict.fromkeys(config.reference for config in SAMPLERS.values()))
    raise UnreadableCheckpoint(f"scheduler_config.json: _class_name is {name}; known are {known}")


def _multistep(scheduler_config: Mapping[str, Any]) -> Sampler:
    """Return the sampler that the settings of `DPMSolverMultistepScheduler` select."""
    algorithm = scheduler_config.get("algorithm_type") or "dpmsolver++"
    karras = bool(scheduler_config.get("use_karras_sigmas"))
    samplers = {
        ("dpmsolver++", False): Sampler.DPMPP_2M,
        ("dpmsolver++", True): Sampler.DPMPP_2M_KARRAS,
        ("deis", False): Sampler.DPMPP_2M,  # the reference replaces DEIS by DPM-Solver++
        ("deis", True): Sampler.DPMPP_2M_KARRAS,
        ("sde-dpmsolver++", False): Sampler.DPMPP_2M_SDE,
        ("sde-dpmsolver++", True): Sampler.DPMPP_2M_SDE_KARRAS,
    }
    if (algorithm, karras) not in samplers:
        known = ", ".join(dict.fromkeys(name for name, _ in samplers))
        raise UnreadableCheckpoint(f"scheduler_config.json: algorithm_type is {algorithm}; known are {known}")
    return samplers[algorithm, karras]


def pipeline_config(
    scheduler_config: Mapping[str, Any], *, pipeline: str = "StableDiffusionPipeline"
) -> dict[str, Any]:
    """Return a checkpoint's scheduler config with the overrides of the reference's class `pipeline`.

    The oldest pipelines always sample with `steps_offset` 1 and similar settings, because old configs lack
    these keys.
    """
    corrected = CORRECTIONS.get(pipeline.removeprefix("Flax"), {})
    unchosen = [key for key in unchosen_keys(scheduler_config) if key not in corrected]
    return {**scheduler_config, **corrected, "_use_default_values": unchosen}


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
