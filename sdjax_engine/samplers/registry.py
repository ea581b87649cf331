"""Every sampler by its name, and what a checkpoint's scheduler config says of samplers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.request import Sampler
from sdjax_engine.samplers.ddim import DDIM, DDPM
from sdjax_engine.samplers.dpmpp import DPMpp2M, DPMpp2MKarras, DPMpp2MSDE, DPMpp2MSDEKarras, DPMppSDE
from sdjax_engine.samplers.euler import Euler, EulerAncestral, Heun
from sdjax_engine.samplers.flow_euler import FlowEuler
from sdjax_engine.samplers.lcm import LCM, TCD
from sdjax_engine.samplers.pndm import PNDM
from sdjax_engine.samplers.schedules import SchedulerConfig, unchosen_keys
from sdjax_engine.samplers.tables import Table
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

EDM = "EDM"  # the prefix of classes for networks that are preconditioned otherwise: Playground v2.5, CosXL
REMEDY = 'Name another sampler in the key sampler, such as sampler = "euler"'


def plan(
    sampler: Sampler,
    num_inference_steps: int,
    scheduler_config: Mapping[str, Any],
    *,
    strength: float | None = None,
    pixels: int = 0,
) -> Table:
    """Return the table of `sampler` on the schedule of a checkpoint, as `SchedulerConfig.plan` does.

    `scheduler_config` is the checkpoint's `scheduler_config.json`; it may name another scheduler. Raises
    `UnreadableCheckpoint` too for a value of the config that the sampler does not support.
    """
    return (
        SAMPLERS[sampler].read(scheduler_config).plan(num_inference_steps, strength=strength, pixels=pixels)
    )


def default_sampler(scheduler_config: Mapping[str, Any]) -> Sampler:
    """Return the sampler that the checkpoint names; raises `UnreadableCheckpoint` for unknown names."""
    name = str(scheduler_config.get("_class_name")).removeprefix("Flax").replace("Parallel", "")
    if name == DPMpp2M.reference:
        return _multistep(scheduler_config)
    for sampler, config in SAMPLERS.items():
        if config.reference == name:
            return sampler
    known = ", ".join(dict.fromkeys(config.reference for config in SAMPLERS.values()))
    raise UnreadableCheckpoint(f"scheduler_config.json: _class_name is {name}; known are {known}. {REMEDY}")


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
        raise UnreadableCheckpoint(
            f"scheduler_config.json: algorithm_type is {algorithm}; known are {known}. {REMEDY}"
        )
    return samplers[algorithm, karras]


def pipeline_config(scheduler_config: Mapping[str, Any], corrections: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's scheduler config with the `corrections` of the reference's pipeline.

    Raises `UnreadableCheckpoint` for a schedule that no sampler here is for.
    """
    name = str(scheduler_config.get("_class_name"))
    if name.startswith(EDM):
        raise UnreadableCheckpoint(
            f"scheduler_config.json: _class_name is {name}, and a network of the EDM schedule is not "
            "supported with any sampler"
        )
    unchosen = [key for key in unchosen_keys(scheduler_config) if key not in corrections]
    return {**scheduler_config, **corrections, "_use_default_values": unchosen}
