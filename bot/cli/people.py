"""The commands about persons and servers: forget, block, unblock, blocks. They work beside a running bot."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bot.cli.configuration import CONFIG, configured
from bot.cli.terminal import say
from bot.domain.holds import MOST_REASON

if TYPE_CHECKING:
    from bot.store.rows.restrictions import Restriction

ID = click.IntRange(1, 2**63 - 1)
MOST_HOURS = 87_600


def _about_one(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --config, --user and --server, one of the last two."""

    @CONFIG
    @click.option("--user", "user_id", type=ID, help="Id of the person.")
    @click.option("--server", "guild_id", type=ID, help="Id of the server.")
    @functools.wraps(command)
    def checked(*, user_id: int | None, guild_id: int | None, **options: object) -> None:
        if (user_id is None) is (guild_id is None):
            raise click.UsageError("Say --user ID or --server ID, and not both.")
        command(user_id=user_id, guild_id=guild_id, **options)

    return checked


@click.command()
@CONFIG
@click.option("--user", "user_id", type=ID, help="Id of the person.")
@click.option(
    "--job", "job_id", help="A job: of the person who asked for it. The log of deletions names jobs."
)
@click.option("--server", "guild_id", type=ID, help="Id of the server.")
@click.option("--yes", is_flag=True, help="Do not ask first, as on a terminal.")
def forget(
    path: Path | None, user_id: int | None, job_id: str | None, guild_id: int | None, yes: bool
) -> None:
    """Delete all that the queue keeps of a person or of a server.

    Requests with their prompts, pictures, and the pictures they were started from; other people's copies of
    a person's pictures too. It works beside a running bot. Messages that were sent to Discord stay there.
    """
    if [user_id, job_id, guild_id].count(None) != 2:
        raise click.UsageError("Say --user ID, --job ID or --server ID, one of them.")
    config = configured(path)
    if not yes and sys.stdin.isatty():
        whose = f"The person of job {job_id}" if job_id else _named(user_id, guild_id)
        click.confirm(f"{whose}: delete all requests and pictures? This cannot be undone.", abort=True)
    from bot.app.operator import forget_now

    count = forget_now(config, user_id=user_id, guild_id=guild_id, job_id=job_id)
    say(f"{count} requests are forgotten, with their pictures.")


@click.command()
@_about_one
@click.option("--hours", type=click.IntRange(1, MOST_HOURS), help="For how long. Left out: for good.")
@click.option("--reason", default="", help="Why; the refused people read it.")
def block(
    path: Path | None, user_id: int | None, guild_id: int | None, hours: int | None, reason: str
) -> None:
    """Refuse every request of a person, or every request in a server.

    A running bot refuses from the next request on. Requests that wait already are still painted.
    """
    if len(reason) > MOST_REASON:
        raise click.BadParameter(f"a reason has up to {MOST_REASON} characters.", param_hint="'--reason'")
    config = configured(path)
    from bot.app.operator import block_now

    replaced = block_now(config, user_id=user_id, guild_id=guild_id, hours=hours, reason=reason)
    said = f"{_named(user_id, guild_id)} is blocked{f' for {hours} h' if hours else ''}."
    if replaced is not None:
        said += f" This replaces a block {_ends(replaced)}."
    say(said)


@click.command()
@_about_one
@click.option("--reason", default="", help="Why; it is kept in the audit log.")
def unblock(path: Path | None, user_id: int | None, guild_id: int | None, reason: str) -> None:
    """Accept the requests of a person or a server again.

    This ends a block by `block` only: moderators of a server end their own blocks themselves.
    """
    config = configured(path)
    from bot.app.operator import unblock_now

    if unblock_now(config, user_id=user_id, guild_id=guild_id, reason=reason):
        say(f"{_named(user_id, guild_id)} is no longer blocked.")
    else:
        say(f"{_named(user_id, guild_id)} is not blocked.")


@click.command()
@CONFIG
def blocks(path: Path | None) -> None:
    """Show the persons and servers that `block` has blocked, until when, and why."""
    config = configured(path)
    from bot.app.operator import blocks_now

    for each in blocks_now(config):
        named = _named(each.scope.user_id or None, each.scope.guild_id or None)
        say("  ".join(filter(None, [named, _ends(each), each.reason])))


def _ends(block: Restriction) -> str:
    if block.until is None:
        return "for good"
    return f"until {datetime.fromtimestamp(block.until, UTC):%Y-%m-%d %H:%M} UTC"


def _named(user_id: int | None, guild_id: int | None) -> str:
    return f"Server {guild_id}" if user_id is None else f"Person {user_id}"
