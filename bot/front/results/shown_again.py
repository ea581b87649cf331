"""A finished job's pictures and buttons, shown once more to one person alone."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable

import discord

from bot.delivery.content import MessageContent
from bot.delivery.discord_requests import MessageFile, layout
from bot.delivery.pictures import fit_and_sign
from bot.delivery.render import render, without_picture
from bot.delivery.uploads import without_gone
from bot.domain.errors import MissingArtifact, StoreUnavailable, UnknownJob, UserMistake
from bot.domain.jobs import Job, State, lacking
from bot.front.answers.answers import acknowledge, send_within_limits
from bot.front.answers.permissions import may_be_seen, may_repeat
from bot.front.services.request import Request, Services

log = logging.getLogger(__name__)

TILE_SECONDS = 5.0  # that a page waits for its pictures


def can_be_shown(job: Job) -> bool:
    """Return whether a job has pictures that can be shown again."""
    shown = any(image.artifact for image in job.images)
    return job.state is State.DONE and job.deleted_at is None and shown


async def show_again(request: Request, job_id: str) -> None:
    """Answer with a job's pictures and buttons, to the person alone.

    Raises UnknownJob for a job that the person may not see, UserMistake `no_picture` or `picture_held` where
    no picture can be shown, `show_restricted` for another person's job of an age-restricted channel anywhere
    else, and UserMistake where the person asks too often.
    """
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    job = await services.store.jobs.get(job_id)
    check_visible(request, job)
    content = render(job, None, request.texts, offers=services.offers, label=services.label)
    await show_content(request, content, without=lambda: without_picture(content, request.texts))


async def show_content(
    request: Request, content: MessageContent, *, without: Callable[[], MessageContent]
) -> None:
    """Show a message with its pictures as the answer, or `without` them where a file is gone.

    A given picture whose file is gone is left out alone.
    """
    content = await without_gone(content, request.services.artifacts)

    async def send(limit: int) -> None:
        files = await _files(request, content, limit)
        view = layout(content, file_names=[file.filename for file in files])
        await request.edit(view=view, attachments=files)

    try:
        await send_within_limits(request, send)
    except MissingArtifact:
        await request.edit(view=layout(without()))


def check_visible(request: Request, job: Job) -> None:
    """Raise as `show_again` does where the person may not see the pictures here."""
    if not may_repeat(request, job, privately=True):
        raise UnknownJob(job=job.id)
    if not can_be_shown(job):
        raise UserMistake(lacking(job.images))
    if not may_be_pictured(request, job):
        raise UserMistake("show_restricted")


def may_be_pictured(request: Request, job: Job) -> bool:
    """Return whether a job may be shown here: others' age-restricted jobs only where that holds here too."""
    mine = job.origin.user_id == request.person.id
    return mine or may_be_seen(request, job)


async def _files(request: Request, content: MessageContent, limit: int) -> list[discord.File]:
    """Return each picture of `content` as a file, together of at most `limit` bytes."""
    services = request.services
    made: list[discord.File] = []
    for picture in content.pictures:
        files = [await services.artifacts.get(name) for name in picture.artifacts]
        fitted = await services.fitting.run(
            functools.partial(
                fit_and_sign,
                *(files, limit // len(content.pictures), services.signing),
                first=picture.first,
                given=picture.given,
            )
        )
        made.append(MessageFile(fitted.data, picture.stem + fitted.suffix))
    return made


async def tile_of(services: Services, name: str | None) -> bytes | None:
    """Return the file of this name for a contact sheet; None where it cannot be read soon."""
    if name is None:
        return None
    try:
        async with asyncio.timeout(TILE_SECONDS):
            return await services.artifacts.get(name)
    except (MissingArtifact, StoreUnavailable, TimeoutError) as error:
        log.info("a contact sheet lacks a picture: %r", error)
        return None
