"""The button that removes a result."""

from __future__ import annotations

from contextlib import suppress

import discord

from bot.front.first_answers import acknowledge_press
from bot.front.permissions import asker
from bot.front.services import Interaction, services_of
from bot.front.views.items import Button


async def delete(interaction: Interaction, job_id: str) -> None:
    """Delete the stored result, the files that nothing else shows, and the message."""
    await acknowledge_press(interaction)
    services = services_of(interaction)
    job = await services.store.jobs.get(job_id)
    names = await services.store.deliveries.delete_result(job_id, user_id=asker(interaction, job))
    await services.files.drop(names)
    with suppress(discord.NotFound):  # the message was deleted meanwhile
        await interaction.delete_original_response()


class DeleteButton(Button, template=r"delete:(?P<job_id>[0-9a-z]+)"):
    """For the person who asked, and for moderators."""

    act = staticmethod(delete)
