"""The picture classifiers and the decoders of previews that the configuration names, for their models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.errors import DevicesFailed, UnreadableCheckpoint, in_bytes
from sdjax_engine.families.family import Latents
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.model.picture_classifier import PictureClassifier, compile_classifier
from sdjax_engine.weights import Component
from sdjax_engine.weights.companions import LoadedClassifier, load_picture_classifier, load_preview_decoder
from sdjax_engine.weights.load import in_host_memory


def add_picture_classifiers(
    config: EngineConfig, models: Mapping[str, LoadedModel], compiler: Compiler, residency: Residency
) -> None:
    """Load the classifiers and give them to their models; models that name the same share it.

    A classifier stays on the devices when its model is evicted; its memory is reserved before it is copied
    there. Raises UnreadableCheckpoint, and
    DevicesFailed where the devices have no room: pictures are never left unjudged for want of memory.
    """
    known = {each.source: each for model in models.values() if (each := model.classifier) is not None}
    for spec in config.models:
        if (source := spec.picture_classifier) is None:
            continue
        if source not in known:
            known[source] = add_classifier(
                source, read_classifier(source, spec, config, compiler), residency, compiler
            )
        check_labels(spec, known[source].loaded.labels)
        models[spec.offer.model].use_classifier(known[source])
        compiler.tell(f"pictures of {spec.offer.model} are judged by {source}")


def read_classifier(
    source: str, spec: ModelSpec, config: EngineConfig, compiler: Compiler
) -> LoadedClassifier:
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


def add_classifier(
    source: str, on_host: LoadedClassifier, residency: Residency, compiler: Compiler
) -> PictureClassifier:
    """Copy a classifier to the devices, and compile its program; after an error its memory is free again."""
    do = residency.owner.do
    on_devices: LoadedClassifier | None = None
    try:
        on_devices = do(partial(place_classifier, source, on_host, residency, compiler))
        classifier = compile_classifier(source, on_devices, compiler)
        do(partial(claim, source, classifier.memory, residency))
    except Exception:
        if on_devices is not None:
            do(on_devices.component.free)
        do(partial(residency.release, owner_of(source)))
        raise
    return classifier


def place_classifier(
    source: str, on_host: LoadedClassifier, residency: Residency, compiler: Compiler
) -> LoadedClassifier:
    """Reserve memory for a classifier, and copy it to the devices; raises DevicesFailed."""
    claim(source, on_host.memory, residency)
    return on_host.placed(partial(devices.replicate, mesh=compiler.mesh))


def claim(source: str, memory: int, residency: Residency) -> None:
    """Reserve memory, at all times for the program too: it judges start pictures beside other programs."""
    owner, need = owner_of(source), Need(held=memory)
    if not residency.claim(owner, need):
        raise DevicesFailed(
            f"A device has no {in_bytes(memory)} for the {owner}: "
            f"name a smaller one{residency.or_raise_it(residency.lacking(owner, need))}."
        )


def free_picture_classifier(classifier: PictureClassifier, residency: Residency) -> None:
    """Free a classifier's memory; for the thread of the devices."""
    classifier.loaded.component.free()
    residency.release(owner_of(classifier.source))


def owner_of(source: str) -> str:
    """Return the owner of a classifier's memory."""
    return f"picture classifier {source}"


def check_labels(spec: ModelSpec, labels: tuple[str, ...]) -> None:
    """Raise UnreadableCheckpoint where the labels that the configuration names are not the classifier's."""
    if spec.picture_labels is not None and spec.picture_labels != set(labels):
        raise UnreadableCheckpoint(
            f"picture_levels of {spec.offer.model} must give a level to each label of "
            f"{spec.picture_classifier}, and to no other: its labels are {', '.join(labels)}."
        )


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
        decoder = read_decoder(spec, config, model.networks.latents, compiler)
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
    if not residency.claim(owner, Need(held=held), optional=True):
        return None
    return decoder.placed(partial(devices.replicate, mesh=compiler.mesh))


def read_decoder(
    spec: ModelSpec,
    config: EngineConfig,
    latents: Latents,
    compiler: Compiler,
) -> Component:
    """Load the decoder of one model that has one into the host's memory.

    Raises UnreadableCheckpoint that names the model.
    """
    assert spec.preview_decoder is not None, "a model without a decoder of previews has none to load"
    try:
        return load_preview_decoder(
            spec.preview_decoder,
            latents=latents,
            dtype=config.dtype,
            put=in_host_memory,
            cache_dir=config.cache_dir,
            report=compiler.tell,
        )
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(f"preview_decoder of {spec.offer.model}: {error}") from error
