"""What all buttons share: the job is read again at each press, and whoever pressed is answered."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self

import discord

from bot.front.answers import report
from bot.front.parts import Interaction, parts_of
from bot.log import about

NEVER = r"(?!)"


@asynccontextmanager
async def pressed(interaction: Interaction) -> AsyncIterator[None]:
    """What a button does; a stop waits for it. This is the edge where any error becomes a sentence."""
    with parts_of(interaction).underway.one():
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the edge: told to the person, logged by report
            await report(interaction, error)


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
        """Act on the job."""
        with about(self.job_id):
            async with pressed(interaction):
                await self.act(interaction, self.job_id, *self.indices)
