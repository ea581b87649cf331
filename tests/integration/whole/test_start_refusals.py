"""Errors of a start: Discord is unreachable or refuses, or the demo's first picture is missing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import discord
import pytest
from discord.app_commands import locale_str
from discord.gateway import KeepAliveHandler
from sandbox_bot import SmallBot
from serving import DEADLINE
from watermarks import CornerWatermark

from bot.app import both, front
from bot.app.discord_side import log_in
from bot.app.offers import Following
from bot.app.queue import Queue
from bot.cli.demo import first_picture
from bot.config import Config
from bot.domain.errors import BotError, CommandsRefused, DiscordUnavailable
from bot.front.client import LONGEST_WAIT
from bot.front.gateway.command_tree import Option, make_command
from bot.process.shutdown import BackgroundTasks, Shutdown
from bot.provenance import opening
from bot.sandbox.server import Sandbox

SetAddress = Callable[[str, str], None]


async def refusal(
    address: str,
    set_address: SetAddress,
    *,
    token: str = "a-token",
    make: Callable[[], discord.Client] = SmallBot,
) -> BotError:
    """Return the error of a log-in at this address."""
    set_address(address, "ws://127.0.0.1:9")
    async with make() as bot:
        with pytest.raises(BotError) as caught:
            await log_in(bot, token, address)
    assert "\n" not in str(caught.value)
    return caught.value


def waiting_client() -> discord.Client:
    """A client that waits as long as the bot does."""
    return discord.Client(intents=discord.Intents.none(), max_ratelimit_timeout=LONGEST_WAIT)


@pytest.fixture
def config(lenient: Sandbox, tmp_path: Path, discord_address: SetAddress) -> Config:
    """The demo's model, served on the sandbox."""
    (tmp_path / "token").write_text("a-token")
    addresses = {"api_url": lenient.api_url, "gateway_url": lenient.gateway_url}
    return Config.parse(
        {
            "discord": {"token_file": str(tmp_path / "token"), **addresses},
            "queue": {
                "database": f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3",
                "artifacts": str(tmp_path / "artifacts"),
            },
        }
    )


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bot has one command, and the description of its option is too long."""
    option = Option(name="prompt", description=locale_str("x" * 101), kind=str)
    command = make_command(
        name="paint", description=locale_str("Paint a picture"), run=log_in, options=[option]
    )
    monkeypatch.setattr("bot.front.features.commands", lambda *_offers, **_options: [command])


async def connects(config: Config, sandbox: Sandbox) -> None:
    """Start a front, and stop it once it is connected to the gateway."""
    shutdown = Shutdown()
    serving = asyncio.create_task(front.serve(config, shutdown=shutdown))
    async with asyncio.timeout(DEADLINE):
        while not sandbox.connected and not serving.done():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        shutdown.request()
        await serving


async def test_an_address_where_another_server_answers_is_reported_with_its_answer(
    sandbox: Sandbox, discord_address: SetAddress
) -> None:
    error = await refusal(f"{sandbox.address}/elsewhere/v10", discord_address)
    assert isinstance(error, DiscordUnavailable)
    assert str(error).startswith(f"Discord at {sandbox.address}/elsewhere/v10 answers: 404 Not Found")


async def test_refused_commands_are_a_mistake_of_configuration_where_the_process_itself_offers_them(
    config: Config, refused: None
) -> None:
    with pytest.raises(CommandsRefused, match="command 'paint', option 'prompt', description"):
        await both.serve(config, shutdown=Shutdown(), report=print)


async def test_a_front_whose_commands_are_refused_connects(
    config: Config, lenient: Sandbox, refused: None, caplog: pytest.LogCaptureFixture
) -> None:
    await connects(config, lenient)
    assert caplog.text.count("Discord refuses the commands: command 'paint', option 'prompt'") == 1
    assert len(lenient.violations) == 1


async def test_a_start_says_that_pictures_get_no_watermark_until_its_weights_are_named(
    config: Config, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "bot")
    made: list[CornerWatermark] = []
    monkeypatch.setattr(opening, "Watermark", lambda _source: made.append(CornerWatermark()) or made[-1])
    await connects(config, sandbox)
    assert (
        caplog.text.count("pictures get no invisible watermark: provenance.watermark names no weights") == 1
    )
    caplog.clear()
    provenance = config.provenance.model_copy(update={"watermark": "weights"})
    await connects(config.model_copy(update={"provenance": provenance}), sandbox)
    assert "watermark" not in caplog.text
    assert [each.closed for each in made] == [True]


async def test_a_front_that_has_to_wait_before_it_registers_connects(
    config: Config, sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.misbehave(rest_429=1, on="/commands", retry_after=3600.5)
    await connects(config, sandbox)
    assert caplog.text.count("Discord did not take the commands: Too many requests. Retry in 3600.50") == 1
    assert "Traceback" not in caplog.text


async def test_a_front_identifies_only_once_discord_allows_a_start(
    config: Config, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("bot.front.gateway.connections.RETRY_SECONDS", 0.2)
    sandbox.misbehave(no_session_starts=1.5)
    await connects(config, sandbox)
    assert "0 session starts are left of the 1000 that Discord allows in a day, and 1 are" in caplog.text
    assert sandbox.violations == []  # an early start is one, and would cost the token


async def test_a_shard_that_has_to_identify_again_waits_for_a_start_too(
    config: Config, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.front.gateway.connections.RETRY_SECONDS", 0.2)
    monkeypatch.setattr("bot.front.gateway.connections.IDENTIFY_SECONDS", 0.2)
    shutdown, ready = Shutdown(), asyncio.Event()
    serving = asyncio.create_task(front.serve(config, shutdown=shutdown, ready=ready.set))
    async with asyncio.timeout(2 * DEADLINE):
        await ready.wait()
        sandbox.misbehave(no_session_starts=1.5, invalidate_session=True)
        for connected in (False, True):
            while sandbox.connected is not connected:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        shutdown.request()
        await serving
    assert sandbox.violations == []
    for thread in threading.enumerate():  # discord.py leaves an attempt open that its hook ended
        if isinstance(thread, KeepAliveHandler) and thread.ws.loop is asyncio.get_running_loop():
            await thread.ws.close()


async def test_a_bot_registers_its_commands_again_while_its_engine_opens(
    config: Config, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "bot")
    shutdown = Shutdown()

    async def opening(
        _config: Config, queue: Queue, _report: object, tasks: BackgroundTasks, _stack: object
    ) -> None:
        assert await queue.store.offers.published(["demo"])
        assert "is retried: Discord did not take the commands" in caplog.text
        sandbox.misbehave(drop_requests=0)
        async with asyncio.timeout(DEADLINE):
            while "registered everywhere" not in caplog.text:  # noqa: ASYNC110 - the log has no event
                await asyncio.sleep(0.01)
        shutdown.request()
        await tasks.wait_for_shutdown()

    monkeypatch.setattr(both, "open_worker", opening)
    monkeypatch.setitem(Following.run.__kwdefaults__, "poll_seconds", 0.01)
    sandbox.misbehave(drop_requests=20, on="/commands")
    await both.serve(config, shutdown=shutdown, report=print)


async def test_a_long_wait_that_discord_asks_for_at_the_login_is_reported_with_its_seconds(
    sandbox: Sandbox, discord_address: SetAddress
) -> None:
    sandbox.misbehave(rest_429=1, retry_after=3600.5)
    error = await refusal(sandbox.api_url, discord_address, make=waiting_client)
    assert isinstance(error, DiscordUnavailable)
    assert str(error) == f"Discord at {sandbox.api_url} asks to wait 3601 s: try again after that time."


async def test_a_missing_first_picture_is_one_sentence(sandbox: Sandbox) -> None:
    with pytest.raises(BotError, match="first picture did not come: There is no command /imagine"):
        await first_picture(sandbox.address, report=lambda _line: None)
