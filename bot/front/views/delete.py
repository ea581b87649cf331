"""The button that removes a result."""

from __future__ import annotations

import logging
from contextlib import suppress

import discord

from bot.errors import StoreUnavailable
from bot.front.parts import Interaction, parts_of
from bot.front.rights import asker
from bot.front.views.pressing import JobButton

log = logging.getLogger(__name__)


async def delete(interaction: Interaction, job_id: str) -> None:
    """Delete the stored result, the files that nothing else shows, and the message."""
    await interaction.response.defer()
    parts = parts_of(interaction)
    job = await parts.store.job(job_id)
    for name in await parts.store.delete_result(job_id, user_id=asker(interaction, job)):
        try:
            await parts.artifacts.delete(name)
        except StoreUnavailable as error:
            log.warning("the file %s of a deleted result is still there: %s", name, error)
    with suppress(discord.NotFound):  # somebody deleted the message meanwhile
        await interaction.delete_original_response()


class DeleteButton(JobButton, template=r"delete:(?P<job>[0-9a-z]+)"):
    """For the person who asked, and for moderators."""

    act = staticmethod(delete)
