"""The decoders of previews that the configuration names, loaded for their models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy.typing as npt

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.weights import Checkpoint, Component
from sdjax_engine.weights.preview_decoder import load_preview_decoder
from sdjax_engine.wording import in_bytes


def add_preview_decoders(
    config: EngineConfig, models: Mapping[str, LoadedModel], compiler: Compiler, residency: Residency
) -> None:
    """Load the decoders and give them to their models, where the devices have room for their parameters.

    A decoder stays on the devices when its model is evicted. Raises UnreadableCheckpoint.
    """
    if not config.preview_seconds:
        return
    for spec in config.models:
        if spec.preview_decoder is None:
            continue
        name, model = spec.offer.model, models[spec.offer.model]
        decoder = loaded(spec, config, model, compiler, put=partial(devices.replicate, mesh=compiler.mesh))
        held = sum(array.nbytes for array in decoder.parameters.values())
        if residency.claim(f"preview decoder of {name}", Need(held=held)):
            model.preview_decoder = decoder
            compiler.tell(f"previews of {name} are decoded by {spec.preview_decoder}")
        else:
            compiler.tell(
                f"previews of {name} are coarse: a device has no {in_bytes(held)} for {spec.preview_decoder}"
            )


def loaded(
    spec: ModelSpec,
    config: EngineConfig,
    model: LoadedModel | Checkpoint,
    compiler: Compiler,
    *,
    put: Callable[[npt.NDArray[Any]], Any],
) -> Component:
    """Load the decoder of one model that has one; raises UnreadableCheckpoint that names the model."""
    assert spec.preview_decoder is not None, "a model without a decoder of previews has none to load"
    try:
        return load_preview_decoder(
            spec.preview_decoder,
            latent_channels=model.latent_channels,
            vae_scale_factor=model.vae_scale_factor,
            dtype=config.dtype,
            put=put,
            cache_dir=config.cache_dir,
            report=compiler.tell,
        )
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(f"preview_decoder of {spec.offer.model}: {error}") from error
