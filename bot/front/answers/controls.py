"""Buttons and menus that survive restarts: ids come from the `custom_id`, all other data from the store.

A new button is a class with a template and a function `act`; `bot/front/views/__init__.py` lists it.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any, ClassVar, Self

import discord

from bot.delivery.refusals import DeliveryDelayed, Refused
from bot.domain.errors import UserMistake
from bot.front.answers.answers import open_until_answered, report
from bot.front.services.services import Interaction, sender_of, services_of
from bot.store.rows.jobs import LARGEST_ID
from bot.telemetry.tracing import about

log = logging.getLogger(__name__)

NEVER = r"(?!)"
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


class Button(discord.ui.DynamicItem[discord.ui.Button[Any]], template=NEVER):
    """A button; `act` is called with the interaction and the named groups of the template.

    Log lines name the job where there is a group `job_id`.
    """

    act: ClassVar[staticmethod[..., Awaitable[None]]]
    ids: Mapping[str, Any]

    @classmethod
    async def from_custom_id(
        cls, _interaction: Interaction, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """Return the pressed button; raises TypeError for another kind of item."""
        if not isinstance(item, discord.ui.Button):
            raise TypeError(f"{match[0]} is not a button")
        button = cls(item)
        button.ids = {name: KINDS.get(name, str)(text) for name, text in match.groupdict().items()}
        return button

    async def callback(self, interaction: Interaction) -> None:
        """Act on the press."""
        job_id = self.ids.get("job_id")
        with about(job_id) if job_id else nullcontext():
            await answer_press(interaction, functools.partial(self.act, interaction), self.ids)


class Menu(discord.ui.DynamicItem[discord.ui.Select[Any]], template=NEVER):
    """A select menu; `act` is called with the interaction, the chosen values and the template's groups."""

    act: ClassVar[staticmethod[..., Awaitable[None]]]
    ids: Mapping[str, Any]

    @classmethod
    async def from_custom_id(
        cls, _interaction: Interaction, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """Return the used menu; raises TypeError for another kind of item."""
        if not isinstance(item, discord.ui.Select):
            raise TypeError(f"{match[0]} is not a menu")
        menu = cls(item)
        menu.ids = match.groupdict()
        return menu

    async def callback(self, interaction: Interaction) -> None:
        """Act on the choice, then let the menu be ready for any choice again."""
        act = functools.partial(self.act, interaction, self.item.values)
        await answer_press(interaction, act, self.ids)
        await _show_nothing_chosen(interaction)


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
