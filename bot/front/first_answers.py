"""The first answer to an interaction: Discord takes one within 3 s, and the request can fail.

An attempt whose outcome is unknown is repeated until Discord answers. Discord refuses the repeated answer as
a second one (40060) if it took the first: the interaction is then answered by this front. The same refusal of
a first attempt means that another front of the same shard has answered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any

import aiohttp
import discord

from bot.errors import DiscordUnavailable
from bot.front.services import Interaction, services_of

ATTEMPT_SECONDS = 1.2  # of the first attempt; two fit into the time that Discord waits
LONGEST_ATTEMPT_SECONDS = 10.0
PAUSE_SECONDS = 0.1  # before the second attempt; twice as long before each further one
LONGEST_PAUSE_SECONDS = 5.0
PATIENCE_SECONDS = 60.0  # the person may read "thinking…" all this time
ALREADY_ACKNOWLEDGED = 40060
FIRST_ANSWER = "first_answer"  # the key in an interaction's extras

Sent = discord.InteractionCallbackResponse[Any] | None


class Answered(Enum):
    """The kind of first answer that an interaction has."""

    PROMISED_PRIVATELY = auto()
    PROMISED_PUBLICLY = auto()
    PRESSED = auto()  # the message with the button stays as it is
    SAID = auto()  # a message
    ASKED = auto()  # a form


def answered(interaction: Interaction) -> Answered | None:
    """Return the kind of the interaction's first answer; None before it."""
    found: Answered | None = interaction.extras.get(FIRST_ANSWER)
    return found


async def acknowledge(interaction: Interaction, *, private: bool) -> int | None:
    """Promise a message, public or private, and return its id where Discord sends it.

    Raises discord.HTTPException where Discord refuses, DiscordUnavailable where it is not reached in time.
    """
    kind = Answered.PROMISED_PRIVATELY if private else Answered.PROMISED_PUBLICLY
    return await _answer(
        interaction, lambda: interaction.response.defer(ephemeral=private, thinking=True), kind
    )


async def acknowledge_press(interaction: Interaction) -> None:
    """Acknowledge a button's press; the message with the button stays.

    Raises like `acknowledge`.
    """
    await _answer(interaction, interaction.response.defer, Answered.PRESSED)


async def say(interaction: Interaction, **message: Any) -> None:
    """Answer with a message to the person alone: the arguments of discord.py's `send_message`.

    Raises like `acknowledge`.
    """
    await _answer(
        interaction, lambda: interaction.response.send_message(ephemeral=True, **message), Answered.SAID
    )


async def open_form(interaction: Interaction, modal: discord.ui.Modal) -> None:
    """Answer with a form.

    Raises like `acknowledge`.
    """
    await _answer(interaction, lambda: interaction.response.send_modal(modal), Answered.ASKED)


async def _answer(
    interaction: Interaction, attempt: Callable[[], Awaitable[Sent]], kind: Answered
) -> int | None:
    began, number = time.monotonic(), 0
    while True:
        try:
            async with asyncio.timeout(min(ATTEMPT_SECONDS * 2**number, LONGEST_ATTEMPT_SECONDS)):
                sent = await attempt()
            break
        except discord.HTTPException as error:
            if error.code == ALREADY_ACKNOWLEDGED and services_of(interaction).was_unclear(interaction.id):
                sent = None
                break
            if error.status < 500:
                raise
            await _pause(number, began, error)
        except (aiohttp.ClientError, OSError) as error:
            await _pause(number, began, error)
        number += 1
    if kind is Answered.PROMISED_PUBLICLY and sent is not None and sent.is_ephemeral():
        kind = Answered.PROMISED_PRIVATELY
    interaction.extras[FIRST_ANSWER] = kind
    return None if sent is None else sent.message_id


async def _pause(number: int, began: float, error: Exception) -> None:
    """Wait before the next attempt; raises DiscordUnavailable after the last."""
    if time.monotonic() - began > PATIENCE_SECONDS:
        raise DiscordUnavailable(f"Discord took no answer to an interaction: {error!r}.") from error
    await asyncio.sleep(min(PAUSE_SECONDS * 2**number, LONGEST_PAUSE_SECONDS))
