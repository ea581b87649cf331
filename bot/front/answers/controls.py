"""Buttons and menus that survive restarts: ids come from the `custom_id`, all other data from the store.

The module that owns the act declares its `CONTROLS`; `bot/front/features.py` lists them.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import discord

from bot.delivery.refusals import DeliveryDelayed, Refused
from bot.domain.errors import UserMistake
from bot.front.answers.answers import open_until_answered, report
from bot.front.services.services import Interaction, sender_of, services_of
from bot.store.rows.jobs import LARGEST_ID
from bot.telemetry.tracing import about

log = logging.getLogger(__name__)

KINDS: Mapping[str, Callable[[str], Any]] = MappingProxyType({"index": int, "key": int, "person": int})
"""The parsers of a template's groups; all other groups are text."""


async def answer_press(
    interaction: Interaction,
    act: Callable[..., Awaitable[None]],
    ids: Mapping[str, Any],
    *,
    tell: Callable[[Interaction, Exception], Awaitable[None]] = report,
) -> None:
    """Act on a press with its `ids`: a stop waits for it, and `tell` answers any error with a sentence."""
    services = services_of(interaction)
    async with open_until_answered(interaction):
        try:
            services.pace.act(sender_of(interaction))
            check_ids(ids)
            await act(**ids)
        except Exception as error:  # noqa: BLE001 - the outermost handler: `report` answers and logs
            await tell(interaction, error)


def check_ids(ids: Mapping[str, Any]) -> None:
    """Raise UserMistake `form_forgotten` for a number that no row has, as in a forged id."""
    for number in map(str, ids.values()):
        if number.isdecimal() and int(number) > LARGEST_ID:
            raise UserMistake("form_forgotten")


@dataclass(frozen=True, kw_only=True)
class Button:
    """A button by the template of its `custom_id`; `act` is called with the interaction and the named groups.

    Log lines name the job where there is a group `job_id`.
    """

    template: str
    act: Callable[..., Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Menu:
    """A select menu; `act` is called with the interaction, the chosen values and the template's groups."""

    template: str
    act: Callable[..., Awaitable[None]]


async def pressed(interaction: Interaction, controls: Sequence[Button | Menu]) -> None:
    """Act on a press of a button or a choice in a menu; one of no known control is ignored."""
    data = cast("Mapping[str, Any]", interaction.data or {})
    kind = COMPONENTS.get(data.get("component_type", 0))
    for control in controls:
        if type(control) is not kind or not (
            match := re.fullmatch(control.template, str(data.get("custom_id", "")))
        ):
            continue
        ids = {name: KINDS.get(name, str)(text) for name, text in match.groupdict().items()}
        job_id = ids.get("job_id")
        with about(job_id) if job_id else nullcontext():
            if isinstance(control, Button):
                await answer_press(interaction, functools.partial(control.act, interaction), ids)
            else:  # then the menu is ready for any choice again
                chosen = list(data.get("values") or ())
                await answer_press(interaction, functools.partial(control.act, interaction, chosen), ids)
                await _show_nothing_chosen(interaction)
        return


COMPONENTS: Mapping[int, type] = MappingProxyType({2: Button, 3: Menu})  # by Discord's types of components


async def _show_nothing_chosen(interaction: Interaction) -> None:
    """Let Discord show the placeholder of a menu again: it sends nothing for a choice that is chosen already.

    Any edit of the message does that. This edit has no content, so it never shows an older state of the
    message. Private messages can be edited only by the answers that sent them, so they keep the choice.
    """
    message = interaction.message
    if message is None or message.flags.ephemeral:
        return
    try:
        with services_of(interaction).rate_guard.request(by_token=False):
            await message.edit(allowed_mentions=discord.AllowedMentions.none())
    except (DeliveryDelayed, Refused) as refused:
        log.info("the choice of a menu stays: %s", refused)
