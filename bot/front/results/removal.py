"""The removal of a result: the button, the form that asks before, the messages that show it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import aiohttp
import discord

from bot.delivery.lineage import message_address
from bot.domain.errors import NotYours, StoreUnavailable, UnknownJob
from bot.domain.jobs import Job
from bot.front.answers.answers import FORM_READ_SECONDS, acknowledge_press, open_form
from bot.front.answers.controls import Button, Form
from bot.front.answers.modals import modal
from bot.front.answers.permissions import asker, moderator_of
from bot.front.services.request import Request

log = logging.getLogger(__name__)

UNREACHABLE = (discord.HTTPException, discord.RateLimited, aiohttp.ClientError, OSError)


async def remove_message(client: discord.Client, job: Job) -> str | None:
    """Delete the message that shows a job; return its address where Discord refuses."""
    address = message_address(job)
    if job.message_id is None or address is None:
        return None
    place = job.message_channel_id or job.origin.channel_id
    guild_id = None if job.message_channel_id else job.origin.guild_id  # another channel is a direct message
    channel = client.get_partial_messageable(place, guild_id=guild_id)
    try:
        await channel.get_partial_message(job.message_id).delete()
    except discord.NotFound:
        return None
    except UNREACHABLE as error:
        log.info("the message of the job %s stays: %s", job.id, error)
        return address
    return None


async def remove_copies(request: Request, job: Job) -> None:
    """Delete the copies of a job and the copies of these copies, of any person, with their messages.

    A message is deleted before its row, so that a repeat can still find it.
    """
    services = request.services
    found = [job]
    for each in found:  # it grows meanwhile
        found += await services.store.jobs.copies(each.id)
    for copy in reversed(found[1:]):  # a copy of a copy before the copy itself, by which it is found
        await remove_message(request.interaction.client, copy)
        try:
            names = await services.store.deliveries.delete_result(copy.id, user_id=None)
        except UnknownJob:  # the person has just erased it
            continue
        await services.files.drop(names)


async def ask(request: Request, job_id: str) -> None:
    """Open the form; a person who may not delete the job is told so instead."""
    with suppress(StoreUnavailable, TimeoutError):  # the form's submission checks it again
        async with asyncio.timeout(FORM_READ_SECONDS):
            job = await request.services.store.jobs.get(job_id)
            if asker(request, job) not in (None, job.origin.user_id):
                raise NotYours(job=job_id)
    question: discord.ui.TextDisplay[Any] = discord.ui.TextDisplay(
        request.texts.gettext(
            "The pictures of this message and their words are deleted for everyone. This cannot be undone."
        )
    )
    title = request.texts.gettext("Delete this?")
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
