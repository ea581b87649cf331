"""The commands that copy the queue with its pictures, and bring it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bot.cli.configuration import CONFIG, configured
from bot.cli.terminal import complain, say

if TYPE_CHECKING:
    from bot.backup.manifest import Manifest

PLACE = click.argument("place", type=click.Path(path_type=Path, file_okay=False))
MIB = 2**20


@click.command()
@CONFIG
@PLACE
@click.option("--keep", type=click.IntRange(min=1), help="Delete all but so many of the newest backups.")
def backup(path: Path | None, place: Path, keep: int | None) -> None:
    """Copy the queue and its pictures into a new folder in PLACE.

    It works beside a running bot. PLACE is a folder, best on a disk of its own. It holds prompts, tokens and
    pictures, so only its owner may read it.
    """
    config = configured(path)
    from bot.app.operator import back_up_now

    made = back_up_now(config, place, keep=keep)
    say(f"{made.folder} holds {_counted(made.manifest)}.")
    if lost := len(made.manifest.lost):
        complain(f"{lost} pictures are gone or damaged where the bot keeps them.")
    for old in made.deleted:
        say(f"{old} is deleted.")


@click.command()
@CONFIG
@PLACE
def restore(path: Path | None, place: Path) -> None:
    """Bring a backup back: PLACE itself, or the newest backup in it.

    The configured database and the place of pictures must be empty. Every file is checked first.
    """
    config = configured(path)
    from bot.app.operator import restore_now

    restored = restore_now(config, place)
    say(f"{restored.folder} is restored: {_counted(restored.manifest)}.")


def _counted(manifest: Manifest) -> str:
    size = sum(manifest.pictures.values()) + sum(table.bytes for table in manifest.tables.values())
    jobs = manifest.tables["jobs"].rows
    return f"{jobs} requests and {len(manifest.pictures)} pictures, {size / MIB:.1f} MiB"
