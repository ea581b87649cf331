"""The button that removes a result, and the form that asks before."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import discord

from bot.domain.errors import NotYours, StoreUnavailable
from bot.front.answers.answers import FORM_READ_SECONDS, acknowledge_press, open_form
from bot.front.answers.controls import Button, Form
from bot.front.answers.modals import modal
from bot.front.answers.permissions import asker, moderator_of
from bot.front.results.removal import remove_copies, remove_message
from bot.front.services.request import Request


async def ask(request: Request, job_id: str) -> None:
    """Open the form; a person who may not delete the job is told so instead."""
    with suppress(StoreUnavailable, TimeoutError):  # the form's submission checks it again
        async with asyncio.timeout(FORM_READ_SECONDS):
            job = await request.services.store.jobs.get(job_id)
            if asker(request, job) not in (None, job.origin.user_id):
                raise NotYours(job=job_id)
    texts = request.texts
    question: discord.ui.TextDisplay[Any] = discord.ui.TextDisplay(
        texts.gettext(
            "The pictures of this message and their words are deleted for everyone. This cannot be undone."
        )
    )
    title = texts.gettext("Delete this?")
    await open_form(request, modal(title, f"delete:{job_id}", question))


async def delete(request: Request, job_id: str) -> None:
    """Delete the stored result, the files that nothing else shows, its copies, and the message.

    The message is deleted last: until then its button can complete an interrupted deletion.
    """
    await acknowledge_press(request)
    services = request.services
    job = await services.store.jobs.get(job_id)
    right, by = asker(request, job), moderator_of(request, job)
    names = await services.store.deliveries.delete_result(job_id, user_id=right, by=by)
    await services.files.drop(names)
    await remove_copies(request, job)
    if request.message is None or job.message_id != request.message.id:  # another message
        await remove_message(request.interaction.client, job)
    with suppress(discord.NotFound):  # the message was deleted meanwhile
        await request.interaction.delete_original_response()


_JOB = r"delete:(?P<job_id>[0-9a-z]+)"
CONTROLS = (Button(template=_JOB, act=ask), Form(template=_JOB, act=delete, again=False))
