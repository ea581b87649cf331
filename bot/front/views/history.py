"""The buttons that turn the pages of a person's history."""

from __future__ import annotations

import re
from typing import Any, Self

import discord

from bot.front.commands.history import history_view, page_beside
from bot.front.first_answers import acknowledge_press
from bot.front.parts import Interaction, parts_of
from bot.front.views.pressing import pressed


class HistoryButton(
    discord.ui.DynamicItem[discord.ui.Button[Any]],
    template=r"history:(?P<way>older|newer):(?P<key>[0-9]{1,19})",
):
    """Shows the page beside an interaction, of whoever presses it: nobody else has their history."""

    way: str
    key: int

    @classmethod
    async def from_custom_id(
        cls, _interaction: Interaction, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """The button that was pressed."""
        if not isinstance(item, discord.ui.Button):
            raise TypeError(f"{match[0]} is not a button")
        button = cls(item)
        button.way, button.key = match["way"], int(match["key"])
        return button

    async def callback(self, interaction: Interaction) -> None:
        """Turn the page."""
        async with pressed(interaction):
            await acknowledge_press(interaction)
            parts = parts_of(interaction)
            found = await page_beside(parts.store, interaction.user.id, way=self.way, key=self.key)
            view = history_view(found, parts.texts(interaction), now=parts.clock())
            await interaction.edit_original_response(view=view)
