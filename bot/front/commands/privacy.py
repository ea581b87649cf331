"""`/privacy`: what is stored of a person; that person alone can see, export and delete it."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence

import discord
from discord.app_commands import locale_str

from bot.delivery.buttons import ButtonContent
from bot.delivery.content import MessageContent, Tone
from bot.delivery.discord_requests import layout
from bot.erasure import forget
from bot.errors import MissingArtifact, StoreUnavailable
from bot.front.answers import tell_end
from bot.front.command_tree import Command, make_command
from bot.front.exporting import files_of, moderated, packed
from bot.front.first_answers import acknowledge, acknowledge_press
from bot.front.removal import remove_message
from bot.front.services import Interaction, Services, sender_of, services_of
from bot.jobs import Job
from bot.store.preferences import Owner, Scope
from bot.texts import Texts

EXPORT, ASK, FORGET = "export", "ask", "forget"
ARCHIVE = "sdjax.zip"
ARCHIVE_LIMIT = discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES - 2 * 1024 * 1024  # the rest is for the JSON
PAGE_JOBS = 200
MOST_ACTS = 5000
SHOWN_MESSAGES = 10


def privacy_command() -> Command:
    """The command."""
    return make_command(
        name="privacy",
        description=locale_str("See, export or delete what is kept about you."),
        run=show_privacy,
    )


async def show_privacy(interaction: Interaction) -> None:
    """Show what is stored and for how long, with buttons that export and delete it."""
    await acknowledge(interaction, private=True)
    view = privacy_view(services_of(interaction).texts(interaction))
    await interaction.edit_original_response(view=view)


def privacy_view(texts: Texts) -> discord.ui.LayoutView:
    """Return the answer to the command."""
    heading = texts.gettext("What is kept about you")
    lines = [
        texts.gettext(
            "Your requests: prompts, settings, pictures that you sent, your id, your name and your language."
        ),
        texts.gettext("The results that you marked as favourites."),
        texts.gettext("The pictures that were painted for you, and what the safety checker found in them."),
        texts.gettext("A number for each picture, by which moderators of its server learn who asked for it."),
        texts.gettext("**{delete}** under a picture deletes its request.", delete=texts.gettext("Delete")),
        texts.gettext(
            "What moderators did about you, and what you did as a moderator. If you delete everything, a "
            "number takes your place in this log, and a block stays until it ends."
        ),
        texts.gettext("Your votes in group sessions, and which of them you host."),
    ]
    row = (
        ButtonContent(label=texts.gettext("Export"), custom_id=f"privacy:{EXPORT}"),
        ButtonContent(label=texts.gettext("Delete everything"), custom_id=f"privacy:{ASK}", dangerous=True),
    )
    text = "\n".join([f"### {heading}", *(f"- {line}" for line in lines)])
    return layout(MessageContent(heading=text, rows=(row,), tone=Tone.WAITING))


async def export(interaction: Interaction) -> None:
    """Send the person all stored data, with as many of their pictures as a message takes."""
    services = services_of(interaction)
    services.pace.admit(sender_of(interaction))
    await acknowledge(interaction, private=True)
    texts = services.texts(interaction)
    jobs = await _all_jobs(services, interaction.user.id)
    names = files_of(jobs, sent=await services.store.erasure.files_sent(interaction.user.id))
    files = await _files(services, names)
    [settings] = await services.store.preferences.of(Owner(scope=Scope.ME, id=interaction.user.id))
    favourites = await services.store.favourites.of(interaction.user.id)
    blocks = await services.store.moderation.of_person(interaction.user.id)
    acts = await services.store.moderation.entries(None, person_id=interaction.user.id, limit=MOST_ACTS)
    votes = await services.store.showing.votes_of(interaction.user.id)
    facts = moderated(interaction.user.id, blocks, acts)
    pack = functools.partial(packed, moderation=facts, votes=votes)
    archive = await services.fitting.run(pack, jobs, files, settings, favourites, services.signing)
    said = texts.ngettext(
        "{count} request of yours is kept.", "{count} requests of yours are kept.", len(jobs)
    )
    if len(files) < len(names):
        said += " " + texts.gettext(
            "{count} of {total} pictures fit into this file, the newest first.",
            count=len(files),
            total=len(names),
        )
    await interaction.edit_original_response(
        content=said, attachments=[discord.File(io.BytesIO(archive), filename=ARCHIVE)]
    )


async def ask(interaction: Interaction) -> None:
    """Ask the person to confirm the deletion."""
    await acknowledge_press(interaction)
    texts = services_of(interaction).texts(interaction)
    question = texts.gettext(
        "Delete everything? This deletes all your requests and pictures, cancels what is waiting, and "
        "removes the messages that show them. This cannot be undone."
    )
    await interaction.edit_original_response(view=_with_button(question, texts))


def _with_button(heading: str, texts: Texts) -> discord.ui.LayoutView:
    label = texts.gettext("Delete everything now")
    row = (ButtonContent(label=label, custom_id=f"privacy:{FORGET}", dangerous=True),)
    return layout(MessageContent(heading=heading, rows=(row,), tone=Tone.FAILED))


async def forget_all(interaction: Interaction) -> None:
    """Delete everything that is stored of the person, and the messages that show it.

    The button stays until then: another press completes an interrupted deletion.
    """
    await acknowledge_press(interaction)
    services = services_of(interaction)
    if interaction.user.id in services.being_deleted:
        return  # the first press reports the outcome
    services.being_deleted.add(interaction.user.id)
    try:
        await _forget(interaction, services)
    finally:
        services.being_deleted.discard(interaction.user.id)


async def _forget(interaction: Interaction, services: Services) -> None:
    texts = services.texts(interaction)
    begun = texts.gettext("Everything of yours is being deleted. If this stops, press the button again.")
    await interaction.edit_original_response(view=_with_button(begun, texts))

    stayed: list[str] = []

    async def remove_messages(jobs: Sequence[Job]) -> None:
        for job in jobs:
            if address := await remove_message(interaction.client, job):
                stayed.append(address)

    user_id = interaction.user.id
    count = await forget(services.store.erasure, services.files, user_id=user_id, first=remove_messages)
    said = texts.ngettext("{count} request was deleted.", "{count} requests were deleted.", count)
    if stayed:
        said += " " + texts.gettext(
            "Discord did not let the bot remove these messages, which a moderator can delete: {messages}",
            messages=" ".join(stayed[:SHOWN_MESSAGES]),
        )
    await tell_end(interaction, said)


async def _all_jobs(services: Services, user_id: int) -> list[Job]:
    """Return every job of the person, the newest first."""
    jobs = await services.store.jobs.history(user_id, limit=PAGE_JOBS, copies=True)
    while further := await services.store.jobs.history(
        user_id, older_than=jobs[-1].origin.interaction_id if jobs else 0, limit=PAGE_JOBS, copies=True
    ):
        jobs += further
    return jobs


async def _files(services: Services, names: Sequence[str]) -> dict[str, bytes]:
    """Return the files of these names that still exist, as far as there is room."""
    files: dict[str, bytes] = {}
    room = ARCHIVE_LIMIT
    for name in names:
        try:
            data = await services.artifacts.get(name)
        except (MissingArtifact, StoreUnavailable):
            continue
        size = len(data) + services.signing.room
        if size > room:
            break
        files[name] = data
        room -= size
    return files
