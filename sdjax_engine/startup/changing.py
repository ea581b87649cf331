"""A change of the models of an open engine: read first, then put in place of those that leave."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

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
from sdjax_engine.startup.picture_classifiers import free_picture_classifier
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
    staying = {spec.offer.model for spec in specs if before.get(spec.offer.model) == spec}
    arriving = []
    with refused_by_devices():
        for spec in specs:
            if spec.offer.model not in staying:
                read = read_model(spec, config, registry.compiler, registry.residency)
                check_companions(read, config, registry.compiler)
                arriving.append(read)
    return Change(config=config, leaving=frozenset(before) - staying, arriving=tuple(arriving))


def leaving_lanes(registry: Registry, change: Change) -> list[Lane]:
    """Return the lanes of the models that leave."""
    return [lane for lane in registry.lanes if lane.model in change.leaving]


def release(registry: Registry, change: Change) -> None:
    """Free the memory of the models that leave, whose lanes are closed; for the thread of the devices."""
    staying = [model for name, model in registry.models.items() if name not in change.leaving]
    for name in change.leaving & registry.models.keys():
        discard(registry.models[name], staying)
    for lane in leaving_lanes(registry, change):
        registry.residency.release(lane)


def discard(model: LoadedModel, others: Collection[LoadedModel]) -> None:
    """Free the memory of a model, and that of its picture classifier where no other model uses it."""
    model.release()
    classifier = model.classifier
    if classifier is not None and classifier not in [other.classifier for other in others]:
        free_picture_classifier(classifier, model.residency)


def arrived(registry: Registry, change: Change) -> tuple[Registry, Mapping[str, EngineError]]:
    """Return the registry after the change, and the error of each model that cannot be used, by name."""
    staying = {name: model for name, model in registry.models.items() if name not in change.leaving}
    failures: dict[str, EngineError] = {}
    new: dict[str, LoadedModel] = {}
    for read in change.arriving:
        name = read.spec.offer.model
        try:
            new[name] = _arrived(registry, change, read, staying | new)
        except Exception as error:
            logger.exception("%s cannot be used", name)
            registry.compiler.tell(f"{name} cannot be used: {first_line(error)}")
            failures[name] = as_engine_error(error)
    found = staying | new
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
        try:
            use_companions(config, {**others, name: model}, registry.compiler, residency)
        except Exception:
            residency.owner.do(partial(discard, model, [*others.values()]))
            raise
    return model
