"""What all buttons share: the job is read again at each press, and whoever pressed is answered."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Any, ClassVar, Self

import discord

from bot.front.answers import report
from bot.front.parts import Interaction, parts_of
from bot.log import about

NEVER = r"(?!)"


class JobButton(discord.ui.DynamicItem[discord.ui.Button[Any]], template=NEVER):
    """A button whose `custom_id` names a job, perhaps the index of one of its pictures, and nothing else.

    `act` is called with the interaction, the job's id and, where the template has one, that index.
    """

    act: ClassVar[staticmethod[..., Awaitable[None]]]
    job_id: str
    indices: tuple[int, ...]

    @classmethod
    async def from_custom_id(
        cls, _interaction: Interaction, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """The button that was pressed."""
        if not isinstance(item, discord.ui.Button):
            raise TypeError(f"{match[0]} is not a button")
        button = cls(item)
        button.job_id = match["job"]
        button.indices = tuple(int(index) for name, index in match.groupdict().items() if name == "index")
        return button

    async def callback(self, interaction: Interaction) -> None:
        """Act on the job; this is the edge where any error becomes a sentence."""
        with about(self.job_id), parts_of(interaction).underway.one():
            try:
                await self.act(interaction, self.job_id, *self.indices)
            except Exception as error:  # noqa: BLE001 - the edge: told to the person, logged by report
                await report(interaction, error)
