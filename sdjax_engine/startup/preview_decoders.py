"""The decoders of previews that the configuration names, loaded for their models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.weights import Checkpoint, Component
from sdjax_engine.weights.load import in_host_memory
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
        decoder = read_decoder(spec, config, model, compiler)
        held = sum(array.nbytes for array in decoder.parameters.values())
        place = partial(place_decoder, decoder, f"preview decoder of {name}", held, residency, compiler)
        model.preview_decoder = residency.owner.do(place)
        if model.preview_decoder is not None:
            compiler.tell(f"previews of {name} are decoded by {spec.preview_decoder}")
        else:
            compiler.tell(
                f"previews of {name} are coarse: a device has no {in_bytes(held)} for {spec.preview_decoder}"
            )


def place_decoder(
    decoder: Component, owner: str, held: int, residency: Residency, compiler: Compiler
) -> Component | None:
    """Reserve memory for a decoder, and copy it to the devices; None without room."""
    if not residency.claim(owner, Need(held=held)):
        return None
    return decoder.placed(partial(devices.replicate, mesh=compiler.mesh))


def read_decoder(
    spec: ModelSpec,
    config: EngineConfig,
    model: LoadedModel | Checkpoint,
    compiler: Compiler,
) -> Component:
    """Load the decoder of one model that has one into the host's memory.

    Raises UnreadableCheckpoint that names the model.
    """
    assert spec.preview_decoder is not None, "a model without a decoder of previews has none to load"
    try:
        return load_preview_decoder(
            spec.preview_decoder,
            latent_channels=model.latent_channels,
            vae_scale_factor=model.vae_scale_factor,
            dtype=config.dtype,
            put=in_host_memory,
            cache_dir=config.cache_dir,
            report=compiler.tell,
        )
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(f"preview_decoder of {spec.offer.model}: {error}") from error
