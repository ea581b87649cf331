"""The commands about pictures that are blocked in every server. They work beside a running bot."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from bot.cli.configuration import CONFIG, configured
from bot.cli.terminal import say
from bot.domain.holds import MOST_REASON

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def known() -> None:
    """Refuse known pictures in every server, as results and to start from."""


@known.command("block")
@CONFIG
@click.argument("picture", type=_FILE)
@click.option("--reason", default="", help="Why; it is kept in the audit log.")
def block_picture(path: Path | None, picture: Path, reason: str) -> None:
    """Block the picture in a PNG, JPEG or WebP file, and all that are almost identical to it."""
    if len(reason) > MOST_REASON:
        raise click.BadParameter(f"a reason has up to {MOST_REASON} characters.", param_hint="'--reason'")
    config = configured(path)
    from bot.app.operator import block_picture_now
    from bot.domain.hashes import hash_of_file, name_of

    try:
        number = hash_of_file(picture.read_bytes())
    except (OSError, ValueError, SyntaxError) as error:
        raise click.BadParameter(f"{picture} is no picture that can be read.") from error
    added = block_picture_now(config, number, reason=reason)
    say(f"{name_of(number)} is blocked{'' if added else ' already'}.")


@known.command("show")
@CONFIG
def show_pictures(path: Path | None) -> None:
    """Show the pictures that are blocked in every server, by their hashes."""
    config = configured(path)
    from bot.app.operator import blocked_pictures_now
    from bot.domain.hashes import name_of

    for each in blocked_pictures_now(config):
        day = datetime.fromtimestamp(each.at, UTC).date()
        say(f"{name_of(each.hash)}  {day}  {each.reason}".rstrip())


@known.command("remove")
@CONFIG
@click.argument("name")
@click.option("--reason", default="", help="Why; it is kept in the audit log.")
def unblock_picture(path: Path | None, name: str, reason: str) -> None:
    """Block the picture of this name no longer; `show` has the names."""
    config = configured(path)
    from bot.app.operator import unblock_picture_now
    from bot.domain.hashes import named

    number = named(name)
    if number is None:
        raise click.BadParameter(f"{name} is no name of a picture: it has 16 hexadecimal digits.")
    removed = unblock_picture_now(config, number, reason=reason)
    say(f"{name} is {'no longer blocked' if removed else 'not blocked'}.")
