"""The files and folders of weights that a configuration names: whether they are there."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from pathlib import Path

from bot.config import Config
from bot.config.mistakes import quoted
from sdjax_engine.errors import EngineError
from sdjax_engine.weights.files import DEMO, is_hub_id


def mistakes_in_weights(config: Config, models: Container[str] | None) -> Iterator[str]:
    """Give a sentence for each file or folder of these models, None for all, that does not exist."""
    for number, model in enumerate(config.models, 1):
        if models is None or model.name in models:
            yield from mistakes_in_checkpoint(config, number)
            yield from mistakes_in_parts(config, number)


def mistakes_in_checkpoint(config: Config, number: int) -> Iterator[str]:
    """Give a sentence if the checkpoint of a model, counted from 1, does not exist."""
    yield from _folder(f"models[{number}].checkpoint", config.models[number - 1].checkpoint)


def mistakes_in_parts(config: Config, number: int) -> Iterator[str]:
    """Give a sentence for each file or folder beside the checkpoint of a model that does not exist.

    `number` counts models from 1. Without previews their decoder is not needed.
    """
    model = config.models[number - 1]
    yield from _folder(f"models[{number}].vae", model.vae)
    yield from _folder(f"models[{number}].picture_classifier", model.picture_classifier)
    if config.engine.preview_seconds > 0:
        yield from _folder(f"models[{number}].preview_decoder", model.preview_decoder)
    for place, (name, file) in enumerate(model.loras.items(), 1):
        if not is_path(Path.exists, file) and not is_hub_id(file):
            lora = f"LoRA {place}, {quoted(name)}," if len(model.loras) > 1 else f"the LoRA {quoted(name)}"
            yield f"models[{number}].loras: {lora} has no file {quoted(file)}: correct its path."


def mistakes_in_opened(
    config: Config, models: Container[str], *, report: Callable[[str], None]
) -> Iterator[str]:
    """Give a sentence for each of these models whose files on this machine a start would refuse; slow.

    Configurations and headers are read, and no device is opened. `report` gets what a start would report.
    """
    from bot.worker.opening import spec_of, with_defaults  # noqa: PLC0415 - the engine is slow to import
    from sdjax_engine.startup.model_check import check_model, local_path  # noqa: PLC0415

    for number, model in enumerate(config.models, 1):
        sources = [source for source in (model.checkpoint, model.vae) if source]
        if model.name not in models or any(local_path(source) is None for source in sources):
            continue
        try:
            spec = spec_of(with_defaults(model, report))
            check_model(spec, dtype="float32", previews=config.engine.preview_seconds > 0)
        except EngineError as error:
            yield f"models[{number}]: {error}"


def mistakes_in_watermark(config: Config) -> Iterator[str]:
    """Give a sentence if the folder of the watermark's weights does not exist."""
    yield from _folder("provenance.watermark", config.provenance.watermark)


def mistakes_in_opened_watermark(config: Config) -> Iterator[str]:
    """Give a sentence if a front would refuse the watermark's weights on this machine; slow.

    Descriptions of tensors are read, no values.
    """
    source = config.provenance.watermark
    if not source or not is_path(Path.is_dir, source):
        return
    from sdjax_engine.weights.trustmark import trustmark_plans  # noqa: PLC0415 - JAX is slow to import

    try:
        trustmark_plans(source)
    except EngineError as error:
        yield f"provenance.watermark: {error}"


def _folder(key: str, source: str) -> Iterator[str]:
    if source and source != DEMO and not is_hub_id(source) and not is_path(Path.exists, source):
        yield f"{key}: there is no file or folder {quoted(source)}: correct its path."


def is_path(kind: Callable[[Path], bool], source: str | Path) -> bool:
    """Return whether there is a file of this kind that can be reached; a text that can be no path is none."""
    try:
        return kind(Path(source).expanduser())
    except (OSError, RuntimeError, ValueError):  # too long or closed, the home of nobody, a null character
        return False
