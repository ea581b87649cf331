"""Checks the files that a configuration names, by reading them as a start would."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial

from bot.app.named_weights import mistakes_in_watermark, mistakes_in_weights
from bot.app.tracing import mistakes_in_tracing
from bot.config import Config
from bot.domain.errors import ConfigurationError
from bot.front.recipes.keywords import read_keywords
from bot.provenance.opening import check_certificate
from bot.store import check_url
from sdjax_engine.errors import UnreadableCheckpoint


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
