"""Deleting a member's recent requests in a server: a confirmation form, and the deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import discord

from bot.domain.errors import StoreUnavailable, UnknownJob, UserMistake
from bot.domain.jobs import Job
from bot.domain.time_units import HOUR_SECONDS
from bot.front.answers.answers import FORM_READ_SECONDS, acknowledge, open_form, tell_begun, tell_end
from bot.front.answers.controls import Form
from bot.front.answers.modals import modal
from bot.front.answers.permissions import acting, moderated_server
from bot.front.results.removal import remove_copies, remove_message
from bot.front.services.request import Request

MOST_HOURS = 168
JOBS_AT_ONCE = 25
SHOWN_MESSAGES = 10
FORM = "clear"


async def ask_clear(request: Request, *, member: discord.User, hours: int = 1) -> None:
    """Open the form, which says how many requests are deleted; raises UserMistake where there is none."""
    guild_id = moderated_server(request)
    services = request.services
    since = services.store.clock() - hours * HOUR_SECONDS
    try:
        async with asyncio.timeout(FORM_READ_SECONDS):
            count = await services.store.jobs.count_recent(member.id, guild_id=guild_id, since=since)
    except TimeoutError:
        raise StoreUnavailable("requests could not be counted in time for a form") from None
    if not count:
        raise UserMistake("nothing_to_clear")
    texts = request.texts
    said = [
        texts.ngettext(
            "This deletes {count} request of {member}: if it is waiting, it is cancelled, and its pictures "
            "and messages disappear for everyone. This cannot be undone.",
            "This deletes {count} requests of {member}: waiting ones are cancelled, and their pictures and "
            "messages disappear for everyone. This cannot be undone.",
            count,
            member=f"<@{member.id}>",
        ),
        texts.gettext("Asked for in the last {time}.", time=texts.duration(hours * HOUR_SECONDS)),
    ]
    question: discord.ui.TextDisplay[Any] = discord.ui.TextDisplay(" ".join(said))
    title = texts.gettext("Delete these requests?")
    await open_form(request, modal(title, f"{FORM}:{member.id}:{hours}", question))


async def clear(request: Request, member: str, hours: str) -> None:
    """Delete the requests, some at a time, until all are deleted or a stop begins.

    The messages are deleted first, so that a repeat completes an interrupted deletion. One transaction then
    deletes the results and writes the row of the log, with their number.
    """
    guild_id = moderated_server(request)
    services = request.services
    await acknowledge(request, private=True)
    texts, user_id = request.texts, int(member)
    await tell_begun(request, texts.gettext("These requests are being deleted."))
    since = services.store.clock() - int(hours) * HOUR_SECONDS
    deleted, stayed, ending = 0, list[str](), services.open_interactions.ending
    while not ending.is_set() and (
        found := await services.store.jobs.recent(user_id, guild_id=guild_id, since=since, limit=JOBS_AT_ONCE)
    ):
        jobs = []
        for job in found:
            if ending.is_set():
                break
            stayed += await _remove(request, job)
            jobs.append(job)
        count, names = await services.store.deliveries.clear(
            [job.id for job in jobs], by=acting(request), subject_id=user_id
        )
        await services.files.drop(names)
        deleted += count
        stayed += await _remove_new(request, jobs)
    said = texts.ngettext("{count} request was deleted.", "{count} requests were deleted.", deleted)
    if ending.is_set():
        said += " " + texts.gettext(
            "The bot is being restarted: give the command again to delete the others."
        )
    if stayed:
        said += " " + texts.gettext(
            "Discord did not let the bot remove these messages, which a moderator can delete: {messages}",
            messages=" ".join(stayed[:SHOWN_MESSAGES]),
        )
    await tell_end(request, said)


async def _remove_new(request: Request, jobs: Sequence[Job]) -> list[str]:
    """Delete the messages of results that were delivered while the first messages were deleted."""
    stayed = []
    for job in jobs:
        if not job.state.final:
            try:
                now = await request.services.store.jobs.get(job.id)
            except UnknownJob:  # the member has just erased it
                continue
            if now.message_id != job.message_id and (
                address := await remove_message(request.interaction.client, now)
            ):
                stayed.append(address)
    return stayed


async def _remove(request: Request, job: Job) -> list[str]:
    """Delete the message and the copies of a job; return the address of a message that Discord keeps."""
    await remove_copies(request, job)
    address = await remove_message(request.interaction.client, job)
    return [address] if address else []


CONTROLS = (
    Form(template=rf"{FORM}:(?P<member>[0-9]{{1,19}}):(?P<hours>[0-9]{{1,3}})", act=clear, again=False),
)
