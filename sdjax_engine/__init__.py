"""A batched Stable Diffusion engine in JAX: a picture depends on its request only.

The public names are loaded when they are first used, so that importing `sdjax_engine.request` or
`sdjax_engine.images` loads no JAX. An import changes no setting of the process: the application
configures the garbage collector and the heap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sdjax_engine.config import Dtype, EngineConfig, ModelSpec
    from sdjax_engine.engine import Engine
    from sdjax_engine.errors import (
        DevicesFailed,
        EngineClosed,
        EngineError,
        InvalidRequest,
        PaintingFailed,
        UnreadableCheckpoint,
    )
    from sdjax_engine.guide.controlnet import FlaxControlNetModel, FlaxStableDiffusionControlNetPipeline
    from sdjax_engine.guide.pictures import make_image_grid
    from sdjax_engine.guide.schedulers import (
        FlaxDDIMScheduler,
        FlaxDPMSolverMultistepScheduler,
        FlaxEulerDiscreteScheduler,
        FlaxPNDMScheduler,
    )
    from sdjax_engine.guide.stable_diffusion import (
        FlaxStableDiffusionImg2ImgPipeline,
        FlaxStableDiffusionInpaintPipeline,
        FlaxStableDiffusionPipeline,
    )
    from sdjax_engine.guide.xl import FlaxStableDiffusionXLPipeline
    from sdjax_engine.request import Image, Lane, Offer, Progress, Request, Sampler

_HOMES = {
    "sdjax_engine.config": ("Dtype", "EngineConfig", "ModelSpec"),
    "sdjax_engine.engine": ("Engine",),
    "sdjax_engine.errors": (
        "DevicesFailed",
        "EngineClosed",
        "EngineError",
        "InvalidRequest",
        "PaintingFailed",
        "UnreadableCheckpoint",
    ),
    "sdjax_engine.guide.controlnet": ("FlaxControlNetModel", "FlaxStableDiffusionControlNetPipeline"),
    "sdjax_engine.guide.pictures": ("make_image_grid",),
    "sdjax_engine.guide.schedulers": (
        "FlaxDDIMScheduler",
        "FlaxDPMSolverMultistepScheduler",
        "FlaxEulerDiscreteScheduler",
        "FlaxPNDMScheduler",
    ),
    "sdjax_engine.guide.stable_diffusion": (
        "FlaxStableDiffusionImg2ImgPipeline",
        "FlaxStableDiffusionInpaintPipeline",
        "FlaxStableDiffusionPipeline",
    ),
    "sdjax_engine.guide.xl": ("FlaxStableDiffusionXLPipeline",),
    "sdjax_engine.request": ("Image", "Lane", "Offer", "Progress", "Request", "Sampler"),
}

__all__ = [
    "DevicesFailed",
    "Dtype",
    "Engine",
    "EngineClosed",
    "EngineConfig",
    "EngineError",
    "FlaxControlNetModel",
    "FlaxDDIMScheduler",
    "FlaxDPMSolverMultistepScheduler",
    "FlaxEulerDiscreteScheduler",
    "FlaxPNDMScheduler",
    "FlaxStableDiffusionControlNetPipeline",
    "FlaxStableDiffusionImg2ImgPipeline",
    "FlaxStableDiffusionInpaintPipeline",
    "FlaxStableDiffusionPipeline",
    "FlaxStableDiffusionXLPipeline",
    "Image",
    "InvalidRequest",
    "Lane",
    "ModelSpec",
    "Offer",
    "PaintingFailed",
    "Progress",
    "Request",
    "Sampler",
    "UnreadableCheckpoint",
    "make_image_grid",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
