"""The command that writes a first configuration: the token, the invite link, the checkpoint, the doctor."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bot.cli.doctor import tell_findings
from bot.cli.terminal import complain, say
from bot.domain.errors import ConfigurationError
from bot.process.private_files import write_private

if TYPE_CHECKING:
    from bot.config import DiscordConfig

PORTAL = "https://discord.com/developers/applications"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Recognised:
    """A token that Discord knows, the bot's name, and the link by which people invite the bot."""

    token: str = field(repr=False)
    name: str
    invitation: str


@click.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    default="bot.toml",
    show_default=True,
    help="The TOML file to write.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@click.option("--token-file", help="The file with the token. Left out: DISCORD_TOKEN, or you are asked.")
@click.option(
    "--model", "source", help="A checkpoint's folder or file, or its hub id. Left out: you are asked."
)
@click.option("--api-url", help="Another address of Discord's API.")
@click.option("--gateway-url", help="Another address of Discord's gateway.")
@click.option("--no-input", is_flag=True, help="Ask nothing; without --model, the demo's checkpoint paints.")
def setup(
    *,
    file: Path,
    overwrite: bool,
    token_file: str | None,
    source: str | None,
    api_url: str | None,
    gateway_url: str | None,
    no_input: bool,
) -> None:
    """Write the configuration of a bot, step by step.

    Asks for the token, which Discord must know, and for a checkpoint; shows the link that invites the bot to
    a server; writes files that only this account can read, and runs the doctor. Nothing is written before
    the last answer. Exit status as doctor's.
    """
    typed = not token_file and not os.environ.get("DISCORD_TOKEN", "").strip()
    if no_input and typed:
        raise click.UsageError("There is no token: name its file with --token-file, or set DISCORD_TOKEN.")
    if not no_input and not sys.stdin.isatty():
        raise click.UsageError("This is no terminal, so nobody can be asked: say --no-input.")
    beside = file.with_suffix(".token")
    _check_free(file, *([beside] if typed else []), overwrite=overwrite)
    from bot.config import Config
    from bot.config.text_files import discord_token

    given = {"api_url": api_url, "gateway_url": gateway_url, "token_file": token_file}
    discord: dict[str, Any] = {key: value for key, value in given.items() if value}
    checked = Config.parse({"discord": discord}, name="The command").discord
    if typed:
        say(f"The token: in {PORTAL} make an application, and copy the token of its page Bot.")
        known = _asked(
            "The token (it is not shown)",
            lambda text: recognised(discord_token(text, "What you typed"), checked),
            hide_input=True,
        )
        discord["token_file"] = str(beside)
    else:
        known = recognised(checked.read_token(), checked)
    say(f"It is the token of {known.name}. This link invites the bot to a server:\n{known.invitation}")
    if source is None and not no_input:
        model = _asked(
            "The checkpoint: a folder, a .safetensors file or a hub id", checked_model, default="demo"
        )
    else:
        model = checked_model(source or "demo")
    texts = {beside: f"{known.token}\n"} if typed else {}
    texts[file] = _toml({"[discord]": discord, "[[models]]": model} if discord else {"[[models]]": model})
    _write(texts, overwrite=overwrite)
    say(f"Written, for this account alone: {', '.join(map(str, texts))}. The doctor looks at everything:")
    status = asyncio.run(tell_findings(Config.read(file), file, "both", ()))
    say(f"Next{', once nothing is to act on' if status else ''}: sdjax-bot run --config {file}")
    sys.exit(status)


def recognised(token: str, discord: DiscordConfig) -> Recognised:
    """Log in with the token; raises ConfigurationError for a refused one, or DiscordUnavailable."""
    import discord as library

    from bot.app.discord_side import log_in
    from bot.doctor.discord_side import IN_THREADS, PERMISSIONS
    from bot.front.gateway.address import use_address
    from bot.process.proxies import ProxyConnector

    async def look() -> Recognised:
        use_address(discord.api_url, discord.gateway_url)
        connector = ProxyConnector(limit=0)
        async with library.Client(connector=connector, intents=library.Intents.none()) as client:
            await log_in(client, token, discord.api_url)
            wanted = dict.fromkeys([*PERMISSIONS, IN_THREADS, "create_public_threads"], True)
            link = library.utils.oauth_url(
                client.application_id or 0,
                permissions=library.Permissions(**wanted),
                scopes=("bot", "applications.commands"),
            )
            return Recognised(token=token, name=str(client.user), invitation=link)

    return asyncio.run(look())


def checked_model(source: str) -> dict[str, str]:
    """Return the keys of a model; raises ConfigurationError for a checkpoint that a start would refuse."""
    from bot.app.named_files import mistakes_in_opened
    from bot.cli.checkpoints import model_at
    from bot.config import Config

    model = model_at(source)
    for mistake in mistakes_in_opened(Config.parse({"models": [model]}), [model["name"]], report=say):
        raise ConfigurationError(mistake.removeprefix("models[1]: "))
    return model


def _asked(question: str, read: Callable[[str], T], **how: Any) -> T:
    """Ask until `read` takes the answer; each refusal is one sentence."""
    while True:
        try:
            return read(click.prompt(question, **how))
        except ConfigurationError as error:
            complain(str(error))


def _check_free(*files: Path, overwrite: bool) -> None:
    for file in files:
        if file.exists() and not overwrite:
            raise click.UsageError(f"{file} exists: name another file with --config, or say --overwrite.")
        if not file.parent.is_dir():
            raise click.UsageError(f"There is no folder {file.parent} for {file.name}.")


def _toml(sections: Mapping[str, Mapping[str, str]]) -> str:
    from bot.config.config import toml_value

    lines = ["# config.example.toml has all keys with their defaults."]
    for heading, keys in sections.items():
        lines += ["", heading, *(f"{key} = {toml_value(value)}" for key, value in keys.items())]
    return "\n".join([*lines, ""])


def _write(texts: Mapping[Path, str], *, overwrite: bool) -> None:
    """Write all files, or none where one cannot be written or a signal comes."""
    made: list[Path] = []
    try:
        for file, text in texts.items():
            existed = file.exists()
            if not write_private(file, text.encode(), replace=overwrite):
                raise click.UsageError(f"{file} exists by now: name another file with --config.")
            made += [] if existed else [file]
    except BaseException:
        for file in made:
            file.unlink()
        raise
