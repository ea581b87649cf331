"""Errors of a start: Discord is unreachable or refuses, or the demo's first picture is missing."""

from __future__ import annotations

from collections.abc import Callable

import discord
import pytest
from discord import app_commands
from discord.app_commands import locale_str
from sandbox_bot import SmallBot

from bot.app.discord_side import log_in
from bot.demo import first_picture
from bot.errors import BotError, ConfigurationError, DiscordUnavailable
from bot.front.client import LONGEST_WAIT
from bot.front.command_tree import Option, Tree, make_command
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


class Registering(discord.Client):
    """A bot that registers a command at its login. The description of the command's option is too long."""

    def __init__(self) -> None:
        super().__init__(intents=discord.Intents.none(), max_ratelimit_timeout=LONGEST_WAIT)
        self.tree = Tree(self)
        option = Option(name="prompt", description=locale_str("x" * 101), kind=str)
        description = locale_str("Paint a picture")
        self.tree.add_command(
            make_command(name="paint", description=description, run=log_in, options=[option])
        )

    async def setup_hook(self) -> None:
        await self.tree.register()


class Replaced(Registering):
    """A bot whose commands are replaced while they are registered."""

    async def setup_hook(self) -> None:
        await self.tree.set_translator(Replacing(self.tree))
        await super().setup_hook()


class Replacing(app_commands.Translator):
    """Removes the commands once they are translated; translates nothing."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def translate(
        self, _text: locale_str, _locale: discord.Locale, _context: app_commands.TranslationContextTypes, /
    ) -> None:
        self._tree.clear_commands(guild=None)


async def test_a_wrong_token_is_a_mistake_of_configuration(
    sandbox: Sandbox, discord_address: SetAddress
) -> None:
    error = await refusal(sandbox.api_url, discord_address, token="wrong-token")
    assert isinstance(error, ConfigurationError)
    assert "refuses the token" in str(error)


async def test_an_address_where_another_server_answers_is_reported_with_its_answer(
    sandbox: Sandbox, discord_address: SetAddress
) -> None:
    error = await refusal(f"{sandbox.address}/elsewhere/v10", discord_address)
    assert isinstance(error, DiscordUnavailable)
    assert str(error).startswith(f"Discord at {sandbox.address}/elsewhere/v10 answers: 404 Not Found")


async def test_an_address_without_a_server_is_reported(discord_address: SetAddress) -> None:
    error = await refusal("http://127.0.0.1:9/api/v10", discord_address)
    assert isinstance(error, DiscordUnavailable)
    assert "cannot be reached" in str(error)


@pytest.mark.parametrize("make", [Registering, Replaced])
async def test_a_refused_command_is_a_mistake_of_configuration_that_names_command_and_option(
    lenient: Sandbox, discord_address: SetAddress, make: Callable[[], discord.Client]
) -> None:
    error = await refusal(lenient.api_url, discord_address, make=make)
    assert isinstance(error, ConfigurationError)
    assert str(error) == (
        "Discord refuses the commands: in command 'paint', in parameter 'prompt', description: Must be "
        "between 1 and 100 in length. Change what the configuration offers there, or update the bot."
    )
    assert len(lenient.violations) == 1


async def test_a_long_wait_that_discord_asks_for_is_reported_with_its_seconds(
    sandbox: Sandbox, discord_address: SetAddress
) -> None:
    sandbox.misbehave(rest_429=1, on="/commands", retry_after=3600.5)
    error = await refusal(sandbox.api_url, discord_address, make=Registering)
    assert isinstance(error, DiscordUnavailable)
    assert str(error) == f"Discord at {sandbox.api_url} asks to wait 3601 s: try again after that time."


async def test_a_missing_first_picture_is_one_sentence(sandbox: Sandbox) -> None:
    with pytest.raises(BotError, match="first picture did not come: There is no command /imagine"):
        await first_picture(sandbox.address, report=lambda _line: None)
