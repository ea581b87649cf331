"""The options of commands that read the configuration, and its loading."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bot.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from bot.config import Config

log = logging.getLogger(__name__)


def _file_or_environment(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    if path is None and not context.resilient_parsing:
        from bot.config.environment import PREFIX

        if not any(name.startswith(PREFIX) for name in os.environ):
            hint = f"Name the TOML file, or set variables {PREFIX}… for its keys."
            raise click.MissingParameter(hint, context, option)
    return path


CONFIG = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    callback=_file_or_environment,
    help="The TOML file. Variables SDJAX__SECTION__KEY have priority, and may say everything.",
)

OWN_CONFIG = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="The TOML file of a bot, to paint with its models and settings.",
)

READY_FILE = click.option(
    "--ready-file", type=click.Path(path_type=Path), help="A file that is made once the process is at work."
)


def tell_ready(file: Path | None) -> None:
    """Create the ready file, if one is named: it says that this process has started."""
    if file is not None:
        file.touch()


def for_worker(config: Config, only: Sequence[str], accelerator: str) -> Config:
    """Return the configuration with the models `only` and the class `accelerator`; empty ones change nothing.

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


def configured(path: Path | None) -> Config:
    """Load the configuration in `path` and the environment, and set the log up."""
    from bot.config import Config
    from bot.telemetry.log import set_up

    config = Config.load(path)
    set_up(config.log.level, config.log.format)
    for warning in config.warnings:
        log.warning("%s", warning)
    return config
