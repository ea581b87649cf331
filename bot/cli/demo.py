"""The demo: the sandbox's Discord on this machine, the bot as shipped, and a first `/imagine`."""

from __future__ import annotations

import asyncio
import errno
import secrets
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bot.app.both import serve
from bot.config import Config
from bot.domain.errors import BotError
from bot.process.shutdown import BackgroundTasks, Shutdown, ShutdownRequested, run_process
from bot.process.threads import in_uninterruptible_thread
from bot.sandbox.client import InteractionFailed, Member, RefusedByClient
from bot.sandbox.community import PEOPLE
from bot.sandbox.server import Sandbox
from bot.telemetry.log import set_up

PORT = 8420
FOLDER = Path("var/demo")
ASKER, CHANNEL = "Mina", "art"
(OMAR,) = (user.id for user in PEOPLE if user.username == "omar")
"""The id of Omar, who gets Arabic answers by configuration: Discord has no Arabic."""

PROMPT = "a red heart left of a blue star"
PICTURE_SECONDS = 120.0
Report = Callable[[str], None]


def run_demo(*, port: int | None, once: bool, report: Report) -> None:
    """Serve the demo until SIGINT or SIGTERM, or with `once` until its first picture has come.

    Without a `port`, the demo uses PORT or any free one. The first picture and compiled programs stay in
    `var/demo`.
    The queue is temporary, as the sandbox loses its messages at every stop.
    """
    set_up("error")
    run_process(lambda shutdown: demo(shutdown, port=port, once=once, report=report))


async def demo(shutdown: Shutdown, *, port: int | None, once: bool, report: Report) -> None:
    """Start the sandbox and the bot, ask for the first picture, and serve until `shutdown`."""
    sandbox = await open_sandbox(port)
    shutdown.tell = lambda line: report(f"{line.capitalize()}.")
    try:
        with tempfile.TemporaryDirectory(prefix="sdjax-demo-") as folder:
            report(
                f"The first picture and compiled programs stay in {FOLDER}; the queue begins empty each time."
            )
            report(
                f"The page:    {sandbox.address}/#mina/art  (commands are there in a moment, pictures when "
                "it is ready)"
            )
            config = configuration(sandbox, Path(folder))
            async with BackgroundTasks(shutdown) as tasks:
                with suppress(ShutdownRequested):
                    await serve_and_play(config, tasks, shutdown, once, report)
    finally:
        await sandbox.stop()


async def open_sandbox(port: int | None) -> Sandbox:
    """Start a sandbox at `port`; raises BotError for a port in use."""
    for choice in [PORT, 0] if port is None else [port]:
        sandbox = Sandbox(port=choice, token=secrets.token_urlsafe())
        try:
            await sandbox.start()
        except OSError as error:
            await sandbox.stop()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return sandbox
    raise BotError(f"Port {port} is in use by another program: choose another with --port, or 0 for any.")


def configuration(sandbox: Sandbox, folder: Path) -> Config:
    """Return the default configuration with the sandbox's addresses and the demo's folders."""
    token = folder / "token"
    token.write_text(sandbox.token, encoding="utf-8")
    return Config.parse(
        {
            "discord": {
                "api_url": sandbox.api_url,
                "gateway_url": sandbox.gateway_url,
                "token_file": str(token),
                "languages": {str(OMAR): "ar"},
                "user_install": True,
            },
            "engine": {"cache_dir": str(FOLDER / "cache")},
            "provenance": {"folder": str(FOLDER / "provenance")},
            "prompts": {"styles_file": "starter"},
            "queue": {
                "database": f"sqlite+aiosqlite:///{folder}/queue.sqlite3",
                "artifacts": str(folder / "artifacts"),
            },
        }
    )


async def serve_and_play(
    config: Config, tasks: BackgroundTasks, shutdown: Shutdown, once: bool, report: Report
) -> None:
    """Run the bot in a task, ask for the first picture, and wait for the end of the bot."""
    ready, ended = asyncio.Event(), asyncio.Event()

    async def bot() -> None:
        try:
            await serve(config, shutdown=shutdown, report=report, ready=ready.set)
        finally:
            ended.set()

    serving = tasks.start(bot(), "bot")
    try:
        await tasks.wait_for(ready.wait())
        address = config.discord.api_url.partition("/api/")[0]
        file = await tasks.wait_for(first_picture(address, report))
        report(f"The picture: {file.resolve()}")
        if not once:
            report(f"The page:    {address}  (Ctrl-C stops)")
            await tasks.wait_for(ended.wait())
    finally:
        if not shutdown.requested.is_set():
            shutdown.request()
        await asyncio.wait({serving})


async def first_picture(address: str, report: Report) -> Path:
    """Ask for one picture as a member of the sandbox; return its file."""
    async with Member(address, ASKER, channel=CHANNEL) as member:
        report(f"{ASKER} types in #{CHANNEL}: /imagine prompt: {PROMPT}")
        try:
            interaction = await member.imagine(prompt=PROMPT)
            message = await member.message_of(interaction, is_finished, timeout=PICTURE_SECONDS)
        except (InteractionFailed, RefusedByClient, TimeoutError) as error:
            raise BotError(f"The demo's first picture did not come: {error}") from error
        data = await member.attachment_bytes(message)
        file: Path = FOLDER / message["attachments"][0]["filename"]
        await in_uninterruptible_thread(lambda: write_file(file, data))
        return file


def is_finished(message: Mapping[str, Any]) -> bool:
    """Whether a message shows a picture that is no preview."""
    return any(not file["filename"].startswith("preview") for file in message["attachments"])


def write_file(file: Path, data: bytes) -> None:
    """Write `data` into `file`, and make its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
