"""A change of the models of an open engine: read first, then put in place of those that leave."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.errors import EngineError
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane
from sdjax_engine.startup.loading import (
    ReadModel,
    check_companions,
    read_model,
    refused_by_devices,
    use_companions,
    use_model,
)
from sdjax_engine.startup.registry import Registry, as_engine_error
from sdjax_engine.wording import first_line

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Change:
    """Other models for an engine: `leaving` are removed or replaced, `arriving` are read and not in use."""

    config: EngineConfig
    leaving: frozenset[str]
    arriving: tuple[ReadModel, ...] = field(repr=False)


def read_change(registry: Registry, specs: Sequence[ModelSpec]) -> Change:
    """Read the models that are new or have another spec; the models in use do not change.

    Raises UnreadableCheckpoint, DevicesFailed and ValueError.
    """
    config = replace(registry.config, models=tuple(specs), lanes=None)
    specs_before = (spec for spec in registry.config.models if spec.offer.model in registry.models)
    before = {spec.offer.model: spec for spec in specs_before}
    kept = {spec.offer.model for spec in specs if before.get(spec.offer.model) == spec}
    arrivals = registry.residency.arrivals()  # one for all: they share the room
    arriving = []
    with refused_by_devices():
        for spec in specs:
            if spec.offer.model not in kept:
                read = read_model(spec, config, registry.compiler, arrivals.put)
                check_companions(read, config, registry.compiler)
                arriving.append(read)
    return Change(config=config, leaving=frozenset(before) - kept, arriving=tuple(arriving))


def leaving_lanes(registry: Registry, change: Change) -> list[Lane]:
    """Return the lanes of the models that leave."""
    return [lane for lane in registry.lanes if lane.model in change.leaving]


def release(registry: Registry, change: Change) -> None:
    """Free the devices' memory of the models that leave; their lanes must be closed."""
    residency = registry.residency
    stay = [spec for spec in registry.config.models if spec.offer.model not in change.leaving]
    in_use = {spec.picture_classifier for spec in (*stay, *(read.spec for read in change.arriving))}
    for spec in registry.config.models:
        name = spec.offer.model
        if name in change.leaving and name in registry.models:
            registry.models[name].release()
            residency.drop(name)
            if spec.picture_classifier not in in_use:
                residency.release(f"picture classifier {spec.picture_classifier}")
    for lane in leaving_lanes(registry, change):
        residency.release(lane)
    gone = change.leaving - {spec.offer.model for spec in change.config.models}
    registry.compiler.forget(tuple(f"{name}{after}" for name in gone for after in (" ", ":")))


def arrived(registry: Registry, change: Change) -> tuple[Registry, Mapping[str, EngineError]]:
    """Return the registry after the change, and the error of each model that cannot be used, by name."""
    kept = {name: model for name, model in registry.models.items() if name not in change.leaving}
    failures: dict[str, EngineError] = {}
    new: dict[str, LoadedModel] = {}
    for read in change.arriving:
        name = read.spec.offer.model
        try:
            new[name] = _arrived(registry, change, read, kept | new)
        except Exception as error:
            logger.exception("%s cannot be used", name)
            registry.compiler.tell(f"{name} cannot be used: {first_line(error)}")
            registry.residency.drop(name)
            source = read.spec.picture_classifier
            if not any(
                each.classifier and each.classifier.source == source for each in (kept | new).values()
            ):
                registry.residency.release(f"picture classifier {source}")
            failures[name] = as_engine_error(error)
    found = kept | new
    specs = tuple(spec for spec in change.config.models if spec.offer.model in found)
    models = {spec.offer.model: found[spec.offer.model] for spec in specs}
    return registry.changed(specs, models), failures


def _arrived(
    registry: Registry, change: Change, read: ReadModel, others: Mapping[str, LoadedModel]
) -> LoadedModel:
    """Take one model into use."""
    name, residency = read.spec.offer.model, registry.residency
    with refused_by_devices():
        model = use_model(read, registry.compiler, residency)
        config = replace(change.config, models=(read.spec,))
        use_companions(config, {**others, name: model}, registry.compiler, residency)
    return model
