"""Facts from a checkpoint's configurations alone, before its weights are downloaded or read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sdjax_engine.families import pipelines
from sdjax_engine.families.stable_diffusion.parts import native_size_of
from sdjax_engine.json_files import read_json
from sdjax_engine.weights.checkpoint import respaced
from sdjax_engine.weights.files import Report, find_source
from sdjax_engine.weights.folder import (
    AUTOENCODER_NAME,
    facts_of,
    family_in,
    models_in,
    read_autoencoder,
    read_config,
    read_index,
)
from sdjax_engine.weights.original.single_file import own_scheduler, recognise, text_part


@dataclass(frozen=True, kw_only=True)
class Described:
    """A checkpoint's short name, the reference's pipeline, its schedule, and (width, height) in pixels.

    `most_skipped` and `usual_layer` are those of an `Offer`. `index` is what model_index.json says besides
    the components. `has_schedule`: the schedule is the checkpoint's own. Else it is that of a single file's
    family.
    """

    name: str
    pipeline: str
    scheduler_config: dict[str, Any]
    native_size: tuple[int, int]
    most_skipped: int
    usual_layer: int
    index: dict[str, Any] = field(default_factory=dict)
    has_schedule: bool = True


def describe(
    source: str,
    *,
    revision: str | None = None,
    variant: str | None = None,
    vae: str | None = None,
    timestep_spacing: str | None = None,
    report: Report | None = None,
) -> Described:
    """Describe the checkpoint called `source` (see `load_checkpoint`), reading configurations only.

    For a hub id only configurations are downloaded; of a single file only the header is read. Raises
    UnreadableCheckpoint.
    """
    path = find_source(source, revision=revision, variant=variant, weights=False, report=report)
    if path.is_dir():
        described = describe_folder(source, path, vae=vae, variant=variant, report=report)
    else:
        described = describe_file(path, vae=vae, variant=variant, report=report)
    return replace(described, scheduler_config=respaced(described.scheduler_config, timestep_spacing))


def describe_folder(
    source: str, folder: Path, *, vae: str | None, variant: str | None, report: Report | None
) -> Described:
    """Describe a checkpoint in diffusers layout."""
    index = read_index(folder)
    pipeline = str(index["_class_name"])
    family = pipelines()[pipeline]
    configs = {
        name: read_config(folder / name, model)
        for name, model in models_in(index).items()
        if not (name == AUTOENCODER_NAME and vae is not None)
    }
    if vae is not None:
        own = family_in(folder, pipeline)
        named = read_autoencoder(vae, own, variant=variant, weights=False, report=report)
        configs[AUTOENCODER_NAME] = named.config
    return Described(
        name=Path(source).name or folder.name,
        pipeline=pipeline,
        scheduler_config=read_json(folder / "scheduler" / "scheduler_config.json"),
        native_size=family.native_size(configs),
        most_skipped=family.most_skipped(configs),
        usual_layer=family.usual_layer(configs),
        index=facts_of(index),
    )


def describe_file(file: Path, *, vae: str | None, variant: str | None, report: Report | None) -> Described:
    """Describe a checkpoint in the original layout."""
    original = recognise(file, vae=vae, variant=variant, weights=False, report=report)
    family = pipelines()[original.pipeline]
    texts = {each.name: text_part(original, each).config for each in original.family.encoders}
    return Described(
        name=file.stem,
        pipeline=original.pipeline,
        scheduler_config=original.scheduler_config,
        native_size=native_size_of({"sample_size": original.sample_size}, original.vae.config),
        most_skipped=family.most_skipped(texts),
        usual_layer=family.usual_layer(texts),
        has_schedule=own_scheduler(file) is not None,
    )
