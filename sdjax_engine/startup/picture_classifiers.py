"""The picture classifiers that the configuration names, loaded and compiled for their models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.errors import DevicesFailed, UnreadableCheckpoint
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.model.picture_classifier import compile_classifier
from sdjax_engine.weights.picture_classifier import LoadedClassifier, load_picture_classifier
from sdjax_engine.wording import in_bytes


def add_picture_classifiers(
    config: EngineConfig, models: Mapping[str, LoadedModel], compiler: Compiler, residency: Residency
) -> None:
    """Load the classifiers and give them to their models; models that name the same share it.

    A classifier stays on the devices when its model is evicted; its memory is reserved before it is copied
    there, and models that have no room beside it are evicted. Raises UnreadableCheckpoint, and
    DevicesFailed where the devices have no room: pictures are never left unjudged for want of memory.
    """
    known = {each.source: each for model in models.values() if (each := model.classifier) is not None}
    for spec in config.models:
        if (source := spec.picture_classifier) is None:
            continue
        if source not in known:
            on_host = loaded(source, spec, config, compiler)
            claim(source, on_host.memory, residency)
            residency.bring(spec.offer.model)  # evicts models that have no room beside the classifier
            on_devices = on_host.placed(partial(devices.replicate, mesh=compiler.mesh))
            known[source] = compile_classifier(source, on_devices, compiler)
            claim(source, known[source].memory, residency)
        check_labels(spec, known[source].loaded.labels)
        models[spec.offer.model].use_classifier(known[source])
        compiler.tell(f"pictures of {spec.offer.model} are judged by {source}")


def loaded(source: str, spec: ModelSpec, config: EngineConfig, compiler: Compiler) -> LoadedClassifier:
    """Load a classifier into the host's memory; raises UnreadableCheckpoint that names the model."""
    try:
        return load_picture_classifier(
            source,
            dtype=config.dtype,
            put=in_host_memory,
            cache_dir=config.cache_dir,
            report=compiler.tell,
        )
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(f"picture_classifier of {spec.offer.model}: {error}") from error


def in_host_memory(array: npt.NDArray[Any]) -> Any:
    """Return a copy in memory, because `array` may be a view of a file."""
    return np.array(array)


def claim(source: str, memory: int, residency: Residency) -> None:
    """Reserve memory, at all times for the program too: it judges start pictures beside other programs."""
    owner, need = f"picture classifier {source}", Need(held=memory)
    if not residency.claim(owner, need):
        raise DevicesFailed(
            f"A device has no {in_bytes(memory)} for the {owner}: "
            f"name a smaller one{residency.or_raise_it(residency.lacking(owner, need))}."
        )


def check_labels(spec: ModelSpec, labels: tuple[str, ...]) -> None:
    """Raise UnreadableCheckpoint where the labels that the configuration names are not the classifier's."""
    if spec.picture_labels is not None and spec.picture_labels != set(labels):
        raise UnreadableCheckpoint(
            f"picture_levels of {spec.offer.model} must give a level to each label of "
            f"{spec.picture_classifier}, and to no other: its labels are {', '.join(labels)}."
        )
