"""The option that names the configuration, and its loading."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bot.config import Config

log = logging.getLogger(__name__)

CONFIG = click.option(
    "--config", "path", required=True, type=click.Path(path_type=Path), help="The TOML file."
)


def configured(path: Path) -> Config:
    """Load the configuration in `path`, and set the log up."""
    from bot.config import Config
    from bot.log import set_up

    config = Config.load(path)
    set_up(config.log.level, config.log.format)
    for warning in config.warnings:
        log.warning("%s", warning)
    return config
