"""The menus of requests to cancel, and the button for all of one's own."""

from __future__ import annotations

import re
from typing import Any, Self

import discord

from bot.front.commands.cancel import CANCEL_ALL, MINE, OTHERS, cancel_all, cancel_chosen
from bot.front.first_answers import acknowledge_press
from bot.front.parts import Interaction
from bot.front.views.pressing import pressed


class CancelMenu(discord.ui.DynamicItem[discord.ui.Select[Any]], template=f"(?:{MINE}|{OTHERS})"):
    """Cancels what is chosen; who may do that is looked at for each request anew."""

    @classmethod
    async def from_custom_id(
        cls, _interaction: Interaction, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """The menu that was used."""
        if not isinstance(item, discord.ui.Select):
            raise TypeError(f"{match[0]} is not a menu")
        return cls(item)

    async def callback(self, interaction: Interaction) -> None:
        """Cancel."""
        async with pressed(interaction):
            await acknowledge_press(interaction)
            await cancel_chosen(interaction, self.item.values)


class CancelAllButton(discord.ui.DynamicItem[discord.ui.Button[Any]], template=CANCEL_ALL):
    """Cancels everything that whoever presses it has asked for."""

    @classmethod
    async def from_custom_id(
        cls, _interaction: Interaction, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """The button that was pressed."""
        if not isinstance(item, discord.ui.Button):
            raise TypeError(f"{match[0]} is not a button")
        return cls(item)

    async def callback(self, interaction: Interaction) -> None:
        """Cancel."""
        async with pressed(interaction):
            await acknowledge_press(interaction)
            await cancel_all(interaction)
