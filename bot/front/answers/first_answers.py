"""The first answer to an interaction: Discord takes one within 3 s, and the request can fail.

An attempt whose outcome is unknown is repeated until Discord answers. Discord refuses the repeated answer as
a second one (40060) if it took the first: the interaction is then answered by this front. The same refusal of
a first attempt means that another front of the same shard has answered. `Counting` sees each request of the
client: it knows which attempts had an unknown outcome, and measures how long first answers take, by the names
of commands and buttons (`name_of`).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import discord

from bot.delivery.refusals import DeliveryDelayed
from bot.domain.errors import DiscordUnavailable
from bot.front.services.services import Interaction, services_of
from bot.telemetry.metrics import FrontMetrics

ATTEMPT_SECONDS = 1.2  # of the first attempt; two fit into the time that Discord waits
LONGEST_ATTEMPT_SECONDS = 10.0
PAUSE_SECONDS = 0.1  # before the second attempt; twice as long before each further one
LONGEST_PAUSE_SECONDS = 5.0
FORM_READ_SECONDS = 2.0  # for all reads before a form, which Discord takes only as the first answer
PATIENCE_SECONDS = 60.0  # the person may read "thinking…" all this time
ALREADY_ACKNOWLEDGED = 40060
FIRST_ANSWER = "first_answer"  # the key in an interaction's extras
CALLBACK = re.compile(r"/interactions/(\d+)/[^/]+/callback$")
MOST_OPEN = 10_000  # interactions without a first answer

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
    """Answer with a form, and remember it for its person: a refused form can be opened again.

    Raises like `acknowledge`.
    """
    forms, form = services_of(interaction).forms, modal.to_dict()
    forms.keep(form, user_id=interaction.user.id, key=modal.custom_id)
    await _answer(interaction, lambda: interaction.response.send_modal(modal), Answered.ASKED)


async def _answer(
    interaction: Interaction, attempt: Callable[[], Awaitable[Sent]], kind: Answered
) -> int | None:
    began, number = time.monotonic(), 0
    while True:
        try:
            services_of(interaction).rate_guard.check_first_answer()
        except DeliveryDelayed as error:
            raise DiscordUnavailable(f"An interaction is not answered: {error}.") from error
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


class Counting:
    """Counts interactions, their first answers, and all requests to Discord.

    `clock` is monotonic, `wall` is in seconds since the epoch.
    """

    def __init__(
        self,
        metrics: FrontMetrics,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._wall = wall
        self._arrived: dict[int, float] = {}
        self._unclear: dict[int, None] = {}

    def arrived(self, interaction: Interaction) -> None:
        """Count an interaction that has arrived."""
        self._arrived[interaction.id] = self._clock()
        _shorten(self._arrived)
        if interaction.type is not discord.InteractionType.autocomplete:
            self._metrics.commands.labels(name_of(interaction)).inc()

    def trace(self) -> aiohttp.TraceConfig:
        """Return an aiohttp trace that counts each attempt of a client's requests by its outcome."""
        trace = aiohttp.TraceConfig()

        async def answered(
            _session: aiohttp.ClientSession, _context: SimpleNamespace, end: aiohttp.TraceRequestEndParams
        ) -> None:
            self.answered(end.url.path, end.response.status)

        async def failed(
            _session: aiohttp.ClientSession,
            _context: SimpleNamespace,
            end: aiohttp.TraceRequestExceptionParams,
        ) -> None:
            if isinstance(end.exception, discord.DiscordException):
                return  # Discord's answer, which the rate guard replaces by an error; it is counted already
            self._lost(end.url.path)
            if not isinstance(end.exception, asyncio.CancelledError):
                self._metrics.discord_requests.labels("unreachable").inc()

        trace.on_request_end.append(answered)
        trace.on_request_exception.append(failed)
        return trace

    def answered(self, path: str, status: int) -> None:
        """Count a request that Discord has answered, perhaps the first answer to an interaction."""
        self._metrics.discord_requests.labels("429" if status == 429 else f"{status // 100}xx").inc()
        if status >= 500:
            self._lost(path)
        elif callback := CALLBACK.search(path):
            number = int(callback[1])
            arrived = self._arrived.pop(number, None)
            if arrived is not None and status < 300:
                self._metrics.acknowledgement.observe(self._clock() - arrived)
                asked = discord.utils.snowflake_time(number).timestamp()
                self._metrics.acknowledgement_since_asked.observe(max(0.0, self._wall() - asked))

    def was_unclear(self, interaction_id: int) -> bool:
        """Return whether an attempt at a first answer to this interaction had an unknown outcome."""
        return interaction_id in self._unclear

    def _lost(self, path: str) -> None:
        if callback := CALLBACK.search(path):
            self._unclear[int(callback[1])] = None
            _shorten(self._unclear)


def _shorten(by_interaction: dict[int, Any]) -> None:
    while len(by_interaction) > MOST_OPEN:
        del by_interaction[next(iter(by_interaction))]


def name_of(interaction: Interaction) -> str:
    """Return the metric's label of a command or a button: a button by the first word of its id."""
    data: Mapping[str, Any] = cast("Mapping[str, Any]", interaction.data or {})
    return str(data.get("name") or str(data.get("custom_id", "")).partition(":")[0])
