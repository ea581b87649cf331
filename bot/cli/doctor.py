"""The command that checks everything that a start needs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bot.cli.configuration import CONFIG
from bot.cli.terminal import one_line, say

if TYPE_CHECKING:
    from bot.config import Reading

WELL, UNWELL = 0, 1


@click.command()
@CONFIG
@click.option(
    "--role",
    type=click.Choice(["front", "worker", "both"]),
    default="both",
    help="What runs on this machine: a front needs no devices, a worker no Discord.",
)
@click.option(
    "--channel",
    "channels",
    type=click.IntRange(1, 2**63 - 1),
    multiple=True,
    help="Id of a channel in which the bot needs its permissions; may be repeated.",
)
def doctor(path: Path | None, role: str, channels: tuple[int, ...]) -> None:
    """Look at everything that a start needs, and say what to do.

    Database, Discord, the place for pictures, checkpoints, devices, disks, modes of files, versions, files of
    tokens, certificates and keywords. It changes nothing, and works beside a running bot. Exit status 0 if
    all is well, 1 if there is something to do, 2 for a mistake in the command or the configuration.
    """
    from bot.config import Config

    reading = Config.read(path)
    sys.exit(asyncio.run(tell_findings(reading, path, role, channels)))


async def tell_findings(reading: Reading, path: Path | None, role: str, channels: tuple[int, ...]) -> int:
    """Print what the doctor finds, a line each; return the exit status."""
    from bot.config import Config
    from bot.doctor import examine

    problems, files = 0, [Path(each.file) for each in reading.variables if each.file]
    async for finding in examine(reading.config, path, files=files, role=role, channels=channels):
        problems += not finding.well
        told = one_line(finding.text)
        text = told if finding.well else Config.say_again(told)
        say(f"{'well' if finding.well else 'ACT '}  {finding.part:<11}  {text}")
    say(f"{problems} to act on." if problems else "All is well.")
    return UNWELL if problems else WELL
