"""The button that removes a result, and the form that asks before."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import discord

from bot.domain.errors import NotYours, StoreUnavailable
from bot.front.answers.controls import Button
from bot.front.answers.first_answers import FORM_READ_SECONDS, acknowledge_press, open_form
from bot.front.answers.forms import Form
from bot.front.answers.modals import modal
from bot.front.answers.permissions import asker, moderator_of
from bot.front.results.removal import remove_copies, remove_message
from bot.front.services.services import Interaction, services_of


async def ask(interaction: Interaction, job_id: str) -> None:
    """Open the form; a person who may not delete the job is told so instead."""
    with suppress(StoreUnavailable, TimeoutError):  # the form's submission checks it again
        async with asyncio.timeout(FORM_READ_SECONDS):
            job = await services_of(interaction).store.jobs.get(job_id)
            if asker(interaction, job) not in (None, job.origin.user_id):
                raise NotYours(job=job_id)
    texts = services_of(interaction).texts(interaction)
    question: discord.ui.TextDisplay[Any] = discord.ui.TextDisplay(
        texts.gettext(
            "The pictures of this message and their words are deleted for everyone. This cannot be undone."
        )
    )
    title = texts.gettext("Delete this?")
    await open_form(interaction, modal(title, f"delete:{job_id}", question))


async def delete(interaction: Interaction, job_id: str) -> None:
    """Delete the stored result, the files that nothing else shows, its copies, and the message.

    The message is deleted last: until then its button can complete an interrupted deletion.
    """
    await acknowledge_press(interaction)
    services = services_of(interaction)
    job = await services.store.jobs.get(job_id)
    right, by = asker(interaction, job), moderator_of(interaction, job)
    names = await services.store.deliveries.delete_result(job_id, user_id=right, by=by)
    await services.files.drop(names)
    await remove_copies(interaction, job)
    if interaction.message is None or job.message_id != interaction.message.id:  # another message
        await remove_message(interaction.client, job)
    with suppress(discord.NotFound):  # the message was deleted meanwhile
        await interaction.delete_original_response()


_JOB = r"delete:(?P<job_id>[0-9a-z]+)"
CONTROLS = (Button(template=_JOB, act=ask), Form(template=_JOB, act=delete, again=False))
