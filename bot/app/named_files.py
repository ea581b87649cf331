"""The files that a configuration names: read before a start as the start reads them, and not used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from bot.config import Config
from bot.errors import ConfigurationError
from bot.front.keywords import read_keywords
from bot.provenance.opening import check_certificate


def mistakes_in_files(config: Config, *, front: bool = True) -> list[str]:
    """Return a sentence for each mistake in a file of tokens, certificates or keywords; blocks.

    Without `front`, only the files that a worker reads.
    """
    mistakes: list[str] = []
    for check in _checks(config, front):
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
