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
from bot.app.named_files import check_start
from bot.cli.checkpoints import model_at
from bot.cli.demo_model import demo_model, words_page
from bot.cli.terminal import one_line
from bot.config import Config, WebConfig
from bot.config.operators import TracesConfig
from bot.doctor import painting
from bot.domain.errors import BotError, ConfigurationError
from bot.process.shutdown import BackgroundTasks, Shutdown, ShutdownRequested, run_process
from bot.process.threads import in_uninterruptible_thread
from bot.sandbox.client import InteractionFailed, Member, RefusedByClient
from bot.sandbox.community import PEOPLE
from bot.sandbox.component_rules import walk
from bot.sandbox.server import Sandbox
from bot.sandbox.state import Flag
from bot.telemetry.log import set_up
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights.files import DEMO

PORT = 8420
FOLDER = Path("var/demo")
ASKER, CHANNEL, MODERATORS = "Mina", "art", "mods"
(OMAR,) = (user.id for user in PEOPLE if user.username == "omar")
"""The id of Omar, who gets Arabic answers by configuration: Discord has no Arabic."""

READERS = "Yuna reads Korean, Wei Chinese and Omar Arabic."
PROMPT = "a red heart left of a blue star"
PICTURE_SECONDS = 120.0
OWN_PICTURE_SECONDS = 86_400.0  # a CPU compiles and paints a large checkpoint for long
Report = Callable[[str], None]


class NoFirstPicture(BotError):
    """The demo's first picture did not come."""


def run_demo(*, port: int | None, once: bool, own: Config | None = None, report: Report) -> None:
    """Serve the demo until SIGINT or SIGTERM, or with `once` until its first picture has come.

    Without a `port`, the demo uses PORT or any free one. `own` is a configuration to try in place of the
    demo's. The first picture, and the demo's compiled programs, stay in `var/demo`.
    The queue is temporary, as the sandbox loses its messages at every stop.
    """
    set_up("error")
    run_process(lambda shutdown: demo(shutdown, port=port, once=once, own=own, report=report))


async def demo(
    shutdown: Shutdown, *, port: int | None, once: bool, own: Config | None = None, report: Report
) -> None:
    """Start the sandbox and the bot, ask for the first picture, and serve until `shutdown`.

    Raises ConfigurationError for an `own` configuration that cannot be served, and BotError for a port in
    use.
    """
    shutdown.tell = lambda line: report(f"{line.capitalize()}.")
    config = own or demo_config()
    with tempfile.TemporaryDirectory(prefix="sdjax-demo-") as folder:
        async with BackgroundTasks(shutdown) as tasks:
            with suppress(ShutdownRequested):
                if own is not None:
                    await tasks.wait_for(check_own(own, report))
                sandbox = await open_sandbox(port)
                try:
                    report(
                        f"The first picture stays in {FOLDER}, compiled programs in "
                        f"{config.engine.cache_dir or 'no folder'}; the queue begins empty each time."
                    )
                    report(
                        f"The page:    {sandbox.address}/#mina/art  (commands are there in a moment, "
                        "pictures when it is ready)"
                    )
                    if own is None:
                        config = with_words(config, sandbox)
                    else:
                        names = ", ".join(model.name for model in own.models)
                        sandbox.introduce(f"Here paints: {names}. {READERS}")
                    config = on_sandbox(config, sandbox, Path(folder))
                    seconds = OWN_PICTURE_SECONDS if own else PICTURE_SECONDS
                    await serve_and_play(config, tasks, shutdown, once, report, seconds=seconds)
                finally:
                    await sandbox.stop()


async def check_own(config: Config, report: Report) -> None:
    """Check what a start of `config` would read; raises ConfigurationError with a sentence for each mistake.

    Its checkpoints must fit the memory. A process of its own looks at them, so that this one has not chosen
    its devices before the engine does.
    """
    without_token = config.discord.model_copy(update={"token_file": ""})
    try:
        check_start(config.model_copy(update={"discord": without_token}), {})
    except UnreadableCheckpoint as error:
        raise ConfigurationError(str(error)) from None
    findings = [each async for each in painting.in_process(config, painting.CHECKPOINTS)]
    if wrong := [each.text for each in findings if not each.well]:
        alone = len(config.models) == 1
        raise ConfigurationError(
            "\n".join(each.removeprefix("models[1]: ") if alone else each for each in wrong)
        )
    for each in findings:
        report(each.text)


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


def demo_config(source: str = DEMO) -> Config:
    """Return the demo's configuration, with another checkpoint if `source` names one.

    Raises ConfigurationError for a text that names none.
    """
    return Config.parse(
        {
            "discord": {"user_install": True},
            "models": [demo_model() if source == DEMO else model_at(source)],
            "engine": {"cache_dir": str(FOLDER / "cache")},
            "provenance": {"folder": str(FOLDER / "provenance")},
            "prompts": {"styles_file": "starter"},
        }
    )


def on_sandbox(config: Config, sandbox: Sandbox, folder: Path) -> Config:
    """Return `config` served on the sandbox, with its queue in `folder`.

    Its servers and shards are Discord's, and its pages may be those of a running bot: they are left out.
    """
    token = folder / "token"
    token.write_text(sandbox.token, encoding="utf-8")
    discord = {
        "api_url": sandbox.api_url,
        "gateway_url": sandbox.gateway_url,
        "token_file": str(token),
        "languages": {OMAR: "ar"},
        "guild_ids": (),
        "shard_count": 0,
        "shard_ids": (),
    }
    queue = {
        "database": f"sqlite+aiosqlite:///{folder}/queue.sqlite3",
        "artifacts": str(folder / "artifacts"),
    }
    return config.model_copy(
        update={
            "discord": config.discord.model_copy(update=discord),
            "queue": config.queue.model_copy(update=queue),
            "web": WebConfig(),
            "traces": TracesConfig(),
        }
    )


def with_words(config: Config, sandbox: Sandbox) -> Config:
    """Show on the sandbox what the demo's model knows; return `config` with the page as the model's link."""
    [model] = config.models
    covered = [label for label, level in model.picture_levels.items() if level != "none"]
    sandbox.introduce(
        f"The demo's model paints only [these words]({sandbox.address}/about/{DEMO}). {READERS}",
        **{DEMO: words_page(licence=model.licence, loras=model.loras, covered=covered)},
    )
    linked = model.model_copy(update={"licence_link": f"{sandbox.address}/about/{DEMO}"})
    return config.model_copy(update={"models": (linked,)})


async def serve_and_play(
    config: Config,
    tasks: BackgroundTasks,
    shutdown: Shutdown,
    once: bool,
    report: Report,
    *,
    seconds: float,
) -> None:
    """Run the bot in a task, ask for the first picture, and wait for the end of the bot.

    With `once`, raises NoFirstPicture; else the page stays open without it.
    """
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
        await tasks.wait_for(choose_review_channel(address))
        try:
            file = await tasks.wait_for(first_picture(address, report, seconds=seconds))
            report(f"The picture: {file.resolve()}")
        except NoFirstPicture as error:
            if once:
                raise
            report(str(error))
        if not once:
            report("Your checkpoint: sdjax-bot demo --model FOLDER; your own server: sdjax-bot setup")
            report(f"The page:    {address}  (Ctrl-C stops)")
            await tasks.wait_for(ended.wait())
    finally:
        if not shutdown.requested.is_set():
            shutdown.request()
        await asyncio.wait({serving})


async def choose_review_channel(address: str) -> None:
    """Have what waits for moderators shown in their channel, which only they see."""
    async with Member(address, ASKER, channel=MODERATORS) as member:
        await member.message_of(await member.use("review channel"))


async def first_picture(address: str, report: Report, *, seconds: float = PICTURE_SECONDS) -> Path:
    """Ask for one picture as a member of the sandbox; return its file, or raise NoFirstPicture."""
    async with Member(address, ASKER, channel=CHANNEL) as member:
        report(f"{ASKER} types in #{CHANNEL}: /imagine prompt: {PROMPT}")
        try:
            interaction = await member.imagine(prompt=PROMPT)
            message = await member.message_of(interaction, has_ended, timeout=seconds)
        except (InteractionFailed, RefusedByClient, TimeoutError) as error:
            raise NoFirstPicture(f"The demo's first picture did not come: {error}") from error
        if not message["attachments"]:
            texts = [part["content"] for _, part in walk(message["components"]) if "content" in part]
            said = " ".join([message["content"], *texts]).strip()
            raise NoFirstPicture(f"The demo's first picture did not come: {one_line(said)}")
        data = await member.attachment_bytes(message)
        file: Path = FOLDER / message["attachments"][0]["filename"]
        await in_uninterruptible_thread(lambda: write_file(file, data))
        return file


def has_ended(message: Mapping[str, Any]) -> bool:
    """Whether a message is the answer to an ended request, which can no longer be cancelled, or a refusal."""
    buttons = [str(part.get("custom_id")) for _, part in walk(message["components"])]
    return not message["flags"] & Flag.LOADING and not any(each.startswith("cancel:") for each in buttons)


def write_file(file: Path, data: bytes) -> None:
    """Write `data` into `file`, and make its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
