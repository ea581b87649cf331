"""The model that a command names: a checkpoint, or a model of a configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from bot.app.local_paths import is_path
from bot.config import Config, ModelConfig
from bot.config.mistakes import quoted
from bot.config.models import MAX_NAME
from bot.domain.errors import ConfigurationError
from sdjax_engine.weights.files import DEMO, is_hub_id


def model_at(source: str) -> dict[str, str]:
    """Return the keys of a model whose checkpoint is a folder, a .safetensors file or a hub id.

    Its name is the checkpoint's own. Raises ConfigurationError for a text that can be none of them.
    """
    if source != DEMO and not is_path(Path.exists, source) and not is_hub_id(source):
        raise ConfigurationError(
            f"There is no folder or file {quoted(source)}: name a folder in the diffusers layout, a "
            ".safetensors file or a hub id."
        )
    own = Path(source).expanduser().absolute().name.removesuffix(".safetensors")
    name = re.sub(r"[^\w.+-]+", "-", own)[:MAX_NAME]
    return {"name": name or DEMO, "checkpoint": source}


def model_named(config: Config, name: str | None) -> ModelConfig:
    """Return the model of this name, by default the first; raises ConfigurationError."""
    found = next((model for model in config.models if name in (None, model.name)), None)
    if found is None:
        known = ", ".join(model.name for model in config.models)
        raise ConfigurationError(f"There is no model {quoted(str(name))}; there are {known}.")
    return found


def with_loras(model: ModelConfig, named: Sequence[str]) -> tuple[ModelConfig, Mapping[str, float]]:
    """Return the model with the LoRAs that are files, and the weights of all that are named, by name.

    Each text is a file or the name of one of the model's LoRAs, perhaps with a weight after a colon:
    style.safetensors:0.8. Raises click.BadParameter for a text that is neither.
    """
    files, weights = dict(model.loras), {}
    for text in named:
        file, weight = _weighted(text)
        name = file if file in model.loras else Path(file).stem
        if file not in model.loras:
            if not is_path(Path.is_file, file):
                others = f", and the model has only the LoRAs {', '.join(model.loras)}" if model.loras else ""
                raise click.BadParameter(f"there is no file {file}{others}.", param_hint="'--lora'")
            files[name] = file
        weights[name] = weight
    return model.model_copy(update={"loras": files}), weights


def _weighted(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition(":")
    try:
        return (name, float(number)) if name else (text, 1.0)
    except ValueError:
        return text, 1.0
