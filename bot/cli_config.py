"""The options of commands that read the configuration, and its loading."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bot.errors import ConfigurationError

if TYPE_CHECKING:
    from bot.config import Config

log = logging.getLogger(__name__)

CONFIG = click.option(
    "--config", "path", required=True, type=click.Path(path_type=Path), help="The TOML file."
)

READY_FILE = click.option(
    "--ready-file", type=click.Path(path_type=Path), help="A file that is made once the process is at work."
)


def tell_ready(file: Path | None) -> None:
    """Make the file, if any, that says that this process is at work."""
    if file is not None:
        file.touch()


def for_worker(config: Config, only: Sequence[str], accelerator: str) -> Config:
    """Return the configuration with these models only, if any, and this class of accelerators, if any.

    Raises ConfigurationError for a model that does not exist.
    """
    known = [model.name for model in config.models]
    if missing := [name for name in only if name not in known]:
        raise ConfigurationError(
            "\n".join(f"There is no model “{name}”; there are {', '.join(known)}." for name in missing)
        )
    models = tuple(model for model in config.models if not only or model.name in only)
    engine = config.engine.model_copy(update={"accelerator": accelerator or config.engine.accelerator})
    return config.model_copy(update={"models": models, "engine": engine})


def configured(path: Path) -> Config:
    """Load the configuration in `path`, and set the log up."""
    from bot.config import Config
    from bot.log import set_up

    config = Config.load(path)
    set_up(config.log.level, config.log.format)
    for warning in config.warnings:
        log.warning("%s", warning)
    return config
