"""The files and folders of weights that a configuration names: whether they are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bot.config import ModelConfig
from sdjax_engine.weights.files import DEMO, is_hub_id


def mistakes_in_weights(model: ModelConfig, *, previews: bool) -> list[str]:
    """Return a sentence for each file or folder of a model that does not exist."""
    return [*_folder(model, "checkpoint", model.checkpoint), *mistakes_in_parts(model, previews=previews)]


def mistakes_in_parts(model: ModelConfig, *, previews: bool) -> list[str]:
    """Return a sentence for each file or folder beside the checkpoint that does not exist.

    Without `previews` their decoder is not needed.
    """
    return [
        *_folder(model, "picture_classifier", model.picture_classifier),
        *_folder(model, "preview_decoder", model.preview_decoder if previews else ""),
        *(
            f"{model.name}: the LoRA {name} has no file {file}: correct its path."
            for name, file in model.loras.items()
            if not Path(file).expanduser().is_file()
        ),
    ]


def _folder(model: ModelConfig, key: str, source: str) -> Iterator[str]:
    if source and source != DEMO and not is_hub_id(source) and not Path(source).expanduser().exists():
        yield f"{model.name}: there is no {key} {source}: correct its path."
