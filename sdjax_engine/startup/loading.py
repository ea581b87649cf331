"""Models from their files: read, then taken into use with their picture classifiers and preview decoders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.errors import DevicesFailed, first_line
from sdjax_engine.families.family import TextEncoders
from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Arrival, Residency
from sdjax_engine.model.loaded import LoadedModel, arrays_of, check_offer
from sdjax_engine.model.loras import LoraBank
from sdjax_engine.startup.companions import (
    add_picture_classifiers,
    add_preview_decoders,
    check_labels,
    read_classifier,
    read_decoder,
)
from sdjax_engine.weights import Checkpoint, load_checkpoint
from sdjax_engine.weights.checkpoint import SAFETY_CHECKER
from sdjax_engine.weights.controlnet import load_part, read_controlnet
from sdjax_engine.weights.embeddings import read_banks, read_embeddings, rows_of, with_embeddings
from sdjax_engine.weights.image_prompt import load_image_prompt, read_image_prompt
from sdjax_engine.weights.load import in_host_memory


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadModel:
    """A model whose files have been read, and which is not in use."""

    spec: ModelSpec
    checkpoint: Checkpoint = field(repr=False)
    loras: LoraBank = field(repr=False)
    arrival: Arrival = field(repr=False)


def read_model(spec: ModelSpec, config: EngineConfig, compiler: Compiler, residency: Residency) -> ReadModel:
    """Read a checkpoint and its LoRAs, into memory that is claimed before; raises UnreadableCheckpoint."""
    compiler.tell(f"loading {spec.offer.model} from {spec.source}")
    arrival = residency.arrival(spec.offer.model)
    checkpoint = load_checkpoint(
        spec.source,
        dtype=config.dtype,
        revision=spec.revision,
        variant=spec.variant,
        vae=spec.vae,
        denoiser=spec.denoiser,
        timestep_spacing=spec.timestep_spacing,
        safety_checker=spec.safety_checker,
        int8=spec.offer.int8,
        expect=arrival.expect,
        put=arrival.put,
        by_output=devices.reads_kernels_by_output(compiler.mesh),
        cache_dir=config.cache_dir,
        report=compiler.tell,
    )
    checkpoint = with_controlnets(checkpoint, spec, config, compiler, arrival)
    checkpoint = with_image_prompt(checkpoint, spec, config, compiler, arrival)
    if spec.safety_checker and SAFETY_CHECKER not in checkpoint.components:
        compiler.tell(f"{spec.offer.model} has no safety checker: none of its pictures is flagged")
    networks = checkpoint.family.networks(checkpoint, spec.offer)
    check_offer(spec.offer, networks)
    checkpoint = with_words(checkpoint, spec, networks.texts, compiler, arrival)
    loras = LoraBank.load(spec.loras, checkpoint, in_host_memory, rank=spec.lora_rank)
    if spec.loras:
        compiler.tell(f"LoRAs of {spec.offer.model}: {loras}")
        leaves: list[Any] = jax.tree.leaves(arrays_of(checkpoint, networks, loras))
        arrival.expect(sum(leaf.nbytes for leaf in leaves))
        loras = loras.placed(arrival.put)
    return ReadModel(spec=spec, checkpoint=checkpoint, loras=loras, arrival=arrival)


def with_controlnets(
    checkpoint: Checkpoint, spec: ModelSpec, config: EngineConfig, compiler: Compiler, arrival: Arrival
) -> Checkpoint:
    """Read the ControlNets that are offered with a checkpoint; raises UnreadableCheckpoint."""
    if not spec.controlnets:
        return checkpoint
    read = partial(read_controlnet, dtype=config.dtype, variant=spec.variant, report=compiler.tell)
    parts = {name: read(source) for name, source in spec.controlnets.items()}
    arrival.expect(size_of(checkpoint) + sum(part.size for part in parts.values()))
    made = {
        name: load_part(
            part,
            spec.controlnets[name],
            put=arrival.put,
            by_output=devices.reads_kernels_by_output(compiler.mesh),
            cache_dir=config.cache_dir,
        )
        for name, part in parts.items()
    }
    compiler.tell(f"ControlNets of {spec.offer.model}: {', '.join(made)}")
    return replace(checkpoint, controlnets=made)


def with_image_prompt(
    checkpoint: Checkpoint, spec: ModelSpec, config: EngineConfig, compiler: Compiler, arrival: Arrival
) -> Checkpoint:
    """Read the IP-Adapter that is offered with a checkpoint, and its encoder; raises UnreadableCheckpoint."""
    if spec.image_prompt is None:
        return checkpoint
    denoiser = checkpoint.components[checkpoint.family.adaptable[0]]
    parts = read_image_prompt(
        *(spec.image_prompt, spec.image_encoder, denoiser.shapes), dtype=config.dtype, report=compiler.tell
    )
    arrival.expect(size_of(checkpoint) + sum(part.size for part in parts.values()))
    made = load_image_prompt(
        parts,
        f"{spec.image_prompt} {spec.image_encoder}",
        put=arrival.put,
        by_output=devices.reads_kernels_by_output(compiler.mesh),
        cache_dir=config.cache_dir,
    )
    compiler.tell(f"image prompts of {spec.offer.model} are read by {spec.image_prompt}")
    return replace(checkpoint, image_prompt=made)


def with_words(
    checkpoint: Checkpoint, spec: ModelSpec, texts: TextEncoders, compiler: Compiler, arrival: Arrival
) -> Checkpoint:
    """Read the embeddings that are offered with a checkpoint; raises UnreadableCheckpoint."""
    if not spec.embeddings:
        return checkpoint
    found = read_embeddings(spec.embeddings, texts)
    banks = read_banks(found, texts)
    arrival.expect(size_of(checkpoint) + sum(bank.nbytes for bank in banks.values()))
    listed = ", ".join(f"{name} ({each.count})" for name, each in found.items())
    compiler.tell(f"embeddings of {spec.offer.model} and their vectors: {listed}")
    return with_embeddings(checkpoint, rows_of(found), banks, arrival.put)


def size_of(checkpoint: Checkpoint) -> int:
    """Return the bytes of all parameters."""
    parts = checkpoint.components, checkpoint.controlnets, checkpoint.image_prompt
    networks = [each for part in parts for each in part.values()]
    return sum(array.nbytes for each in networks for array in each.parameters.values())


def check_companions(read: ReadModel, config: EngineConfig, compiler: Compiler) -> None:
    """Read a model's classifier and preview decoder, and keep neither; raises UnreadableCheckpoint."""
    spec = read.spec
    if spec.picture_classifier is not None:
        found = read_classifier(spec.picture_classifier, spec, config, compiler)
        check_labels(spec, found.labels)
    if spec.preview_decoder is not None and config.preview_seconds:
        read_decoder(
            spec, config, read.checkpoint.family.networks(read.checkpoint, spec.offer).latents, compiler
        )


def use_model(read: ReadModel, compiler: Compiler, residency: Residency) -> LoadedModel:
    """Take a model into use, on the devices as far as there is room; raises DevicesFailed."""
    return LoadedModel(
        *(read.spec.offer, read.checkpoint, compiler, read.loras, residency), arrival=read.arrival.owner
    )


def use_companions(
    config: EngineConfig, models: Mapping[str, LoadedModel], compiler: Compiler, residency: Residency
) -> None:
    """Load the picture classifiers and the preview decoders of the models of `config`.

    Models that `config` does not name already have theirs. Raises UnreadableCheckpoint and DevicesFailed.
    """
    add_picture_classifiers(config, models, compiler, residency)
    add_preview_decoders(config, models, compiler, residency)


def load_models(config: EngineConfig, compiler: Compiler, residency: Residency) -> dict[str, LoadedModel]:
    """Load every model onto the devices, as far as there is room.

    Raises UnreadableCheckpoint and DevicesFailed.
    """
    models = {}
    with refused_by_devices():
        for spec in config.models:
            read = read_model(spec, config, compiler, residency)
            models[spec.offer.model] = use_model(read, compiler, residency)
        use_companions(config, models, compiler, residency)
    return models


@contextmanager
def refused_by_devices() -> Iterator[None]:
    """Turn an error of the devices into DevicesFailed: their memory is too small, for example."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        raise DevicesFailed(f"The devices cannot hold what is offered: {first_line(error)}") from error
