"""Menus under messages: a real discord.py client offers choices, members choose."""

from __future__ import annotations

from typing import Any

import discord
import pytest
from message_bodies import row, select
from sandbox_tools import MESSAGES, Raw

from bot.sandbox.server import Sandbox

LABELS = ("Left", "Middle", "Right")


class Variants(discord.ui.Select[Any]):
    """Says which variants were chosen, and keeps them chosen."""

    def __init__(self, chosen: list[str]) -> None:
        options = [
            discord.SelectOption(
                label=label, description=f"The one {label}", emoji="🎲", default=label in chosen
            )
            for label in LABELS
        ]
        super().__init__(
            custom_id="variants", placeholder="Choose variants", options=options, min_values=0, max_values=2
        )

    async def callback(self, interaction: discord.Interaction) -> None:
        text = discord.ui.TextDisplay[Any](f"chosen: {', '.join(self.values) or 'none'}")
        await interaction.response.edit_message(view=menu(text, self.values))


def menu(text: discord.ui.TextDisplay[Any], chosen: list[str]) -> discord.ui.LayoutView:
    button = discord.ui.Button[Any](label="Again", emoji="🔁", custom_id="again")
    rows = discord.ui.ActionRow[Any](Variants(chosen)), discord.ui.ActionRow[Any](button)
    return discord.ui.LayoutView(timeout=None).add_item(discord.ui.Container[Any](text, *rows))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"options": []}, ("options",)),
        ({"max_values": 2}, ("options",)),
        ({"options": [{"label": "", "value": "a"}]}, ("options", "0", "label")),
        ({"options": [{"label": "a", "value": ""}]}, ("options", "0", "value")),
        (
            {"options": [{"label": "a", "value": "a", "description": "d" * 101}]},
            ("options", "0", "description"),
        ),
        ({"options": [{"label": "a", "value": "a"}] * 2}, ("options",)),
        ({"placeholder": "p" * 151}, ("placeholder",)),
        ({"min_values": 2, "max_values": 1}, ("max_values",)),
    ],
)
async def test_a_malformed_menu_is_refused(
    lenient: Sandbox, changes: dict[str, Any], where: tuple[str, ...]
) -> None:
    async with Raw(lenient) as bot:
        answer = await bot.call("POST", MESSAGES, {"content": "x", "components": [row(select(**changes))]})
    assert answer.error("components", "0", "components", "0", *where)
    assert len(lenient.violations) == 1
