"""Opens the engine of a configuration."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bot.config import Config, ModelConfig
from sdjax_engine.config import Dtype, EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.model.defaults import default_offer

Report = Callable[[str], None]


def read_defaults(config: Config, report: Report) -> Config:
    """Return the configuration with the samplers that suit each checkpoint, and its defaults for unset keys.

    Reads the configuration files of checkpoints, and downloads missing ones. Raises UnreadableCheckpoint.
    """
    return config.model_copy(
        update={"models": tuple(with_defaults(model, report) for model in config.models)}
    )


def with_defaults(model: ModelConfig, report: Report) -> ModelConfig:
    """Return a model as `read_defaults` does."""
    unset = model.unset
    offer = default_offer(
        model.checkpoint,
        model=model.name,
        revision=model.revision or None,
        variant=model.variant or None,
        vae=model.vae or None,
        timestep_spacing=model.timestep_spacing or None,
        sampler=None if "sampler" in unset else model.sampler,
        num_inference_steps=None if "num_inference_steps" in unset else model.num_inference_steps,
        report=report,
    )
    return model.with_defaults(offer)


def open_engine(config: Config, report: Report) -> Engine:
    """Load the configured models and compile the programs of their offers; raises UnreadableCheckpoint."""
    engine = Engine.open(engine_config(config), report=report)
    gc.freeze()  # full collections pass over what exists now: traced programs stay
    return engine


def engine_config(config: Config) -> EngineConfig:
    """Return the engine's configuration."""
    section = config.engine
    return EngineConfig(
        models=specs_of(config),
        dtype=Dtype(section.dtype),
        seats_per_device=section.seats_per_device,
        fitted_programs=None if section.fitted_programs == "auto" else section.fitted_programs,
        cpu_devices=section.cpu_devices,
        cache_dir=Path(section.cache_dir) if section.cache_dir else None,
        cache_group=section.cache_group,
        device_memory=int(section.device_memory_gib * 2**30),
        stuck_after=section.stuck_seconds,
        preview_seconds=section.preview_seconds,
    )


def specs_of(config: Config) -> tuple[ModelSpec, ...]:
    """Return the engine's configuration of each model, in which licences play no part."""
    return tuple(spec_of(model) for model in config.models)


def spec_of(model: ModelConfig) -> ModelSpec:
    """Return the engine's configuration of a model with its defaults, without its licence."""
    return ModelSpec(
        offer=replace(model.offer, licence="", licence_link=""),
        source=model.checkpoint,
        revision=model.revision or None,
        variant=model.variant or None,
        vae=model.vae or None,
        denoiser=model.denoiser or None,
        timestep_spacing=model.timestep_spacing or None,
        safety_checker=model.safety_checker,
        loras={name: Path(file) for name, file in model.loras.items()},
        lora_rank=model.lora_rank,
        controlnets={name: net.source for name, net in model.controlnets.items()},
        embeddings={name: Path(file) for name, file in model.embeddings.items()},
        image_prompt=model.image_prompt or None,
        image_encoder=model.image_encoder or None,
        preview_decoder=model.preview_decoder or None,
        picture_classifier=model.picture_classifier or None,
        picture_labels=frozenset(model.picture_levels) if model.picture_classifier else None,
    )
