"""Checks the files and folders that a configuration names, by reading them as a start would."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bot.app.local_paths import is_path
from bot.app.tracing import mistakes_in_tracing
from bot.config import Config
from bot.config.mistakes import quoted
from bot.domain.errors import ConfigurationError
from bot.front.recipes.keywords import read_keywords
from bot.provenance.opening import check_certificate
from bot.store import check_url
from sdjax_engine.errors import EngineError, UnreadableCheckpoint
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
    yield from _folder(f"models[{number}].denoiser", model.denoiser)
    yield from _folder(f"models[{number}].picture_classifier", model.picture_classifier)
    if config.engine.preview_seconds > 0:
        yield from _folder(f"models[{number}].preview_decoder", model.preview_decoder)
    for place, (name, file) in enumerate(model.loras.items(), 1):
        if not is_path(Path.exists, file) and not is_hub_id(file):
            lora = f"LoRA {place}, {quoted(name)}," if len(model.loras) > 1 else f"the LoRA {quoted(name)}"
            yield f"models[{number}].loras: {lora} has no file {quoted(file)}: correct its path."
    for name, net in model.controlnets.items():
        yield from _folder(f"models[{number}].controlnets.{name}.source", net.source)
    if model.image_prompt and not is_path(Path.is_file, model.image_prompt):
        yield (
            f"models[{number}].image_prompt: there is no file {quoted(model.image_prompt)}: correct its path."
        )
    yield from _folder(f"models[{number}].image_encoder", model.image_encoder)
    for name, file in model.embeddings.items():
        if not is_path(Path.is_file, file):
            yield (
                f"models[{number}].embeddings: {quoted(name)} has no file {quoted(file)}: correct its path."
            )


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
    from sdjax_engine.weights.trustmark import trustmark_parts  # noqa: PLC0415 - JAX is slow to import

    try:
        trustmark_parts(source)
    except EngineError as error:
        yield f"provenance.watermark: {error}"


def _folder(key: str, source: str) -> Iterator[str]:
    if source and source != DEMO and not is_hub_id(source) and not is_path(Path.exists, source):
        yield f"{key}: there is no file or folder {quoted(source)}: correct its path."


def check_start(
    config: Config,
    environ: Mapping[str, str],
    *,
    front: bool = True,
    models: Container[str] | None = None,
    others: Iterable[str] = (),
) -> None:
    """Raise ConfigurationError with a sentence for each mistake that would stop a start; blocks.

    Where only weights are missing, raise UnreadableCheckpoint: their disk may be mounted a moment later, and
    a supervisor starts again after that error. Without `front`, mistakes that concern only fronts are left
    out; weights are looked for of the `models` of these names, None for all. `others` are further mistakes.
    """
    mistakes = [*others, *_refusals([partial(check_url, config.queue.database), *_checks(config, front)])]
    mistakes += mistakes_in_tracing(config.traces, environ)
    missing = [*mistakes_in_weights(config, models), *(mistakes_in_watermark(config) if front else ())]
    if mistakes:
        raise ConfigurationError("\n".join([*mistakes, *missing]))
    if missing:
        raise UnreadableCheckpoint("\n".join(missing))


def mistakes_in_files(config: Config, *, front: bool = True) -> list[str]:
    """Return a sentence for each mistake in a file of tokens, certificates or keywords; blocks.

    Without `front`, only the files that a worker reads.
    """
    return _refusals(_checks(config, front))


def _refusals(checks: Iterable[Callable[[], object]]) -> list[str]:
    mistakes: list[str] = []
    for check in checks:
        try:
            check()
        except ConfigurationError as error:
            mistakes += str(error).splitlines()
    return mistakes


def _checks(config: Config, front: bool) -> Iterator[Callable[[], object]]:
    yield config.web.read_token
    if not front:
        return
    if config.discord.token_file:
        yield config.discord.read_token
    yield partial(check_certificate, config.provenance)
    if config.prompts.keywords_file:
        yield partial(read_keywords, config.prompts.keywords_file)
