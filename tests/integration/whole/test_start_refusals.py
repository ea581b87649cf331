"""Errors of a start: Discord is unreachable, or the demo's first picture is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sandbox_bot import SmallBot

from bot.app.discord_side import log_in
from bot.demo import first_picture
from bot.errors import BotError, ConfigurationError, DiscordUnavailable
from bot.sandbox.server import Sandbox

SetAddress = Callable[[str, str], None]


async def refusal(address: str, set_address: SetAddress, *, token: str = "a-token") -> BotError:
    """Return the error of a log-in at this address."""
    set_address(address, "ws://127.0.0.1:9")
    async with SmallBot() as bot:
        with pytest.raises(BotError) as caught:
            await log_in(bot, token, address)
    assert "\n" not in str(caught.value)
    return caught.value


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


async def test_a_missing_first_picture_is_one_sentence(sandbox: Sandbox) -> None:
    with pytest.raises(BotError, match="first picture did not come: There is no command /imagine"):
        await first_picture(sandbox.address, report=lambda _line: None)
