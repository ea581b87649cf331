"""Deleting a member's recent requests in a server: a confirmation form, and the deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import discord

from bot.errors import StoreUnavailable, UserMistake
from bot.front.answers import page, tell_end
from bot.front.first_answers import FORM_READ_SECONDS, acknowledge, open_form
from bot.front.modals import modal
from bot.front.permissions import acting, moderated_server
from bot.front.removal import remove_copies, remove_message
from bot.front.services import Interaction, services_of
from bot.jobs import Job

HOUR_SECONDS = 3600.0
MOST_HOURS = 168
JOBS_AT_ONCE = 25
SHOWN_MESSAGES = 10
FORM = "clear"


async def ask_clear(interaction: Interaction, *, member: discord.User, hours: int = 1) -> None:
    """Open the form, which says how many requests are deleted; raises UserMistake where there is none."""
    guild_id = moderated_server(interaction)
    services = services_of(interaction)
    since = services.store.clock() - hours * HOUR_SECONDS
    try:
        async with asyncio.timeout(FORM_READ_SECONDS):
            count = await services.store.jobs.count_recent(member.id, guild_id=guild_id, since=since)
    except TimeoutError:
        raise StoreUnavailable("requests could not be counted in time for a form") from None
    if not count:
        raise UserMistake("nothing_to_clear")
    texts = services.texts(interaction)
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
    await open_form(interaction, modal(title, f"{FORM}:{member.id}:{hours}", question))


async def clear(interaction: Interaction, member: str, hours: str) -> None:
    """Delete the requests, some at a time.

    The messages are deleted first, so that a repeat completes an interrupted deletion. One transaction then
    deletes the results and writes the row of the log.
    """
    guild_id = moderated_server(interaction)
    services = services_of(interaction)
    await acknowledge(interaction, private=True)
    texts, user_id = services.texts(interaction), int(member)
    await interaction.edit_original_response(view=page(texts.gettext("These requests are being deleted.")))
    since = services.store.clock() - int(hours) * HOUR_SECONDS
    deleted, stayed = 0, list[str]()
    while jobs := await services.store.jobs.recent(
        user_id, guild_id=guild_id, since=since, limit=JOBS_AT_ONCE
    ):
        stayed += await _remove(interaction, jobs)
        count, names = await services.store.deliveries.clear(
            [job.id for job in jobs], by=acting(interaction), subject_id=user_id
        )
        await services.files.drop(names)
        deleted += count
        stayed += await _remove_new(interaction, jobs)
    said = texts.ngettext("{count} request was deleted.", "{count} requests were deleted.", deleted)
    if stayed:
        said += " " + texts.gettext(
            "Discord did not let the bot remove these messages, which a moderator can delete: {messages}",
            messages=" ".join(stayed[:SHOWN_MESSAGES]),
        )
    await tell_end(interaction, said)


async def _remove_new(interaction: Interaction, jobs: Sequence[Job]) -> list[str]:
    """Delete the messages of results that were delivered while the first messages were deleted."""
    stayed = []
    for job in jobs:
        if not job.state.final:
            now = await services_of(interaction).store.jobs.get(job.id)
            if now.message_id != job.message_id and (
                address := await remove_message(interaction.client, now)
            ):
                stayed.append(address)
    return stayed


async def _remove(interaction: Interaction, jobs: Sequence[Job]) -> list[str]:
    """Delete the messages and the copies of jobs; return the addresses of messages that Discord keeps."""
    stayed = []
    for job in jobs:
        await remove_copies(interaction, job)
        if address := await remove_message(interaction.client, job):
            stayed.append(address)
    return stayed
