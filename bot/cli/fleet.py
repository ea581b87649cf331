"""The commands of the fleet: start, status, drain, stop, grant."""

from __future__ import annotations

from pathlib import Path

import click

from bot.cli.configuration import CONFIG, configured
from bot.cli.terminal import complain, say

ADDRESS = click.option(
    "--address", default="auto", show_default=True, help="Of the Ray cluster; auto: of this machine's Ray."
)


@click.group()
def fleet() -> None:
    """Run workers on the machines of a Ray cluster, as many as the waiting work needs."""


@fleet.command()
@CONFIG
@ADDRESS
def start(path: Path | None, address: str) -> None:
    """Start the fleet, or change it to this configuration.

    The command returns, and the fleet goes on. Groups whose configuration or version has changed are replaced
    without a gap.
    """
    config = configured(path)
    from bot.app import fleet as app

    app.start(config, address, complain)
    say(f"The fleet {config.fleet.name} runs: see sdjax-bot fleet status.")


@fleet.command()
@CONFIG
@ADDRESS
def status(path: Path | None, address: str) -> None:
    """Show the groups: their workers, and the work that waits for them."""
    config = configured(path)
    from bot.app import fleet as app

    for line in app.status(config, address):
        say(line)


@fleet.command()
@click.argument("group")
@CONFIG
@ADDRESS
def drain(group: str, path: Path | None, address: str) -> None:
    """Let GROUP finish its images and run nothing, until the next start."""
    config = configured(path)
    from bot.app import fleet as app

    app.drain(config, group, address)
    say(f"{group} ends its work: see sdjax-bot fleet status.")


@fleet.command()
@CONFIG
@ADDRESS
def stop(path: Path | None, address: str) -> None:
    """Let every process finish its images, and stop the fleet."""
    config = configured(path)
    from bot.app import fleet as app

    app.stop(config, address, say)
    say(f"The fleet {config.fleet.name} has stopped.")


@fleet.command()
@click.argument("role")
@CONFIG
def grant(role: str, path: Path | None) -> None:
    """Let a ROLE of PostgreSQL read the view fleet_demand, and nothing else."""
    config = configured(path)
    from bot.app import fleet as app

    app.grant(config, role)
    say(f"{role} may read the view fleet_demand.")
