"""The commands of the operators' page."""

from __future__ import annotations

from pathlib import Path

import click

from bot.cli.configuration import CONFIG, configured
from bot.cli.terminal import hand_over


@click.command()
@CONFIG
def page(*, path: Path | None) -> None:
    """Serve the operators' page alone: health, queue, workers, failures, deliveries, audit log and usage.

    A front serves it too, where the configuration has a port for it.
    """
    config = configured(path)
    from bot.app.page import run_page

    run_page(config)


@click.command("page-link")
@CONFIG
def page_link(*, path: Path | None) -> None:
    """Print a link that opens the operators' page: once, and within ten minutes."""
    config = configured(path)
    from bot.app.page import link_now

    hand_over(link_now(config))
