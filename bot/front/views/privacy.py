"""The buttons that export and delete what is kept of a person."""

from __future__ import annotations

import re
from typing import Any, Self

import discord

from bot.front.answers import report
from bot.front.commands import privacy
from bot.front.parts import Interaction, parts_of

ACTS = {privacy.EXPORT: privacy.export, privacy.ASK: privacy.ask, privacy.FORGET: privacy.forget_all}


class PrivacyButton(
    discord.ui.DynamicItem[discord.ui.Button[Any]],
    template=rf"privacy:(?P<act>{'|'.join(ACTS)})",
):
    """Acts on what is kept of whoever presses it: nobody reaches what is somebody else's."""

    act: str

    @classmethod
    async def from_custom_id(
        cls, _interaction: Interaction, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """The button that was pressed."""
        if not isinstance(item, discord.ui.Button):
            raise TypeError(f"{match[0]} is not a button")
        button = cls(item)
        button.act = match["act"]
        return button

    async def callback(self, interaction: Interaction) -> None:
        """Act; this is the edge where any error becomes a sentence."""
        with parts_of(interaction).underway.one():
            try:
                await ACTS[self.act](interaction)
            except Exception as error:  # noqa: BLE001 - the edge: told to the person, logged by report
                await report(interaction, error)
