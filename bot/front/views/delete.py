"""The button that removes a result."""

from __future__ import annotations

from contextlib import suppress

import discord

from bot.album import drop
from bot.front.first_answers import acknowledge_press
from bot.front.parts import Interaction, parts_of
from bot.front.rights import asker
from bot.front.views.pressing import JobButton


async def delete(interaction: Interaction, job_id: str) -> None:
    """Delete the stored result, the files that nothing else shows, and the message."""
    await acknowledge_press(interaction)
    parts = parts_of(interaction)
    job = await parts.store.jobs.get(job_id)
    names = await parts.store.deliveries.delete_result(job_id, user_id=asker(interaction, job))
    await drop(parts.store, parts.artifacts, names)
    with suppress(discord.NotFound):  # somebody deleted the message meanwhile
        await interaction.delete_original_response()


class DeleteButton(JobButton, template=r"delete:(?P<job>[0-9a-z]+)"):
    """For the person who asked, and for moderators."""

    act = staticmethod(delete)
