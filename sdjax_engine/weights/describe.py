"""Facts from a checkpoint's configurations alone, before its weights are downloaded or read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdjax_engine.json_files import read_json
from sdjax_engine.weights.contents import native_size_of
from sdjax_engine.weights.file_names import Report
from sdjax_engine.weights.files import find_source
from sdjax_engine.weights.folder import read_config, read_index
from sdjax_engine.weights.original.single_file import recognise, vae_part


@dataclass(frozen=True, kw_only=True)
class Described:
    """A checkpoint's short name, the reference's pipeline, its schedule, and (width, height) in pixels."""

    name: str
    pipeline: str
    scheduler_config: dict[str, Any]
    native_size: tuple[int, int]


def describe(
    source: str,
    *,
    revision: str | None = None,
    variant: str | None = None,
    report: Report | None = None,
) -> Described:
    """Describe the checkpoint called `source` (see `load_checkpoint`), reading configurations only.

    For a hub id only configurations are downloaded; of a single file only the header is read. Raises
    UnreadableCheckpoint.
    """
    path = find_source(source, revision=revision, variant=variant, weights=False, report=report)
    return describe_folder(source, path) if path.is_dir() else describe_file(path)


def describe_folder(source: str, folder: Path) -> Described:
    """Describe a checkpoint in diffusers layout."""
    pipeline = str(read_index(folder)["_class_name"])
    unet = read_config(folder / "unet", "UNet2DConditionModel")
    vae = read_config(folder / "vae", "AutoencoderKL")
    return Described(
        name=Path(source).name or folder.name,
        pipeline=pipeline,
        scheduler_config=read_json(folder / "scheduler" / "scheduler_config.json"),
        native_size=native_size_of(unet, vae),
    )


def describe_file(file: Path) -> Described:
    """Describe a checkpoint in the original layout."""
    original = recognise(file)
    return Described(
        name=file.stem,
        pipeline=original.pipeline,
        scheduler_config=original.scheduler_config,
        native_size=native_size_of({"sample_size": original.sample_size}, vae_part(original).config),
    )
