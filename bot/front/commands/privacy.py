"""`/privacy`: what is stored of a person; that person alone can see, export and delete it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from typing import Any

import discord
from discord.app_commands import locale_str

from bot.delivery.content import ButtonContent, MessageContent, Tone
from bot.delivery.discord_requests import layout
from bot.domain.errors import UserMistake
from bot.domain.jobs import Job
from bot.files.erasure import forget
from bot.front.answers.answers import acknowledge, acknowledge_press, tell_end
from bot.front.answers.controls import Button
from bot.front.gateway.command_tree import Command, make_command
from bot.front.results.export import Part, Position, export_part
from bot.front.results.removal import remove_message
from bot.front.services.request import Request, Services
from bot.texts.catalogue import Texts

EXPORT, ASK, FORGET = "export", "ask", "forget"
ARCHIVE = "sdjax.zip"
EXPORT_SECONDS = 600.0  # with the wait for others; an interaction's token holds for 900
SHOWN_MESSAGES = 10


def privacy_command() -> Command:
    """The command."""
    return make_command(
        name="privacy",
        description=locale_str("See, export or delete what is kept about you."),
        run=show_privacy,
    )


async def show_privacy(request: Request) -> None:
    """Show what is stored and for how long, with buttons that export and delete it."""
    await acknowledge(request, private=True)
    view = privacy_view(request.texts)
    await request.edit(view=view)


def privacy_view(texts: Texts) -> discord.ui.LayoutView:
    """Return the answer to the command."""
    heading = texts.gettext("What is kept about you")
    lines = [
        texts.gettext(
            "Your requests: prompts, settings, pictures that you sent, your id, your name and your language."
        ),
        texts.gettext("The pictures that were painted for you, and what the safety checker found in them."),
        texts.gettext("A number for each picture, by which moderators of its server learn who asked for it."),
        texts.gettext("The settings that you saved, and the results that you marked as favourites."),
        texts.gettext("**{delete}** under a picture deletes its request.", delete=texts.gettext("Delete")),
        texts.gettext(
            "Prompts that a rule refused, for a day; your appeals and your reports, with your words; and "
            "what moderators decided."
        ),
        texts.gettext(
            "What moderators did about you, and what you did as a moderator. If you delete everything, a "
            "number takes your place in this log, and a block stays until it ends."
        ),
        texts.gettext("Your votes in group sessions, and which of them you host."),
        texts.gettext(
            "How many pictures were painted for you and how long that took, by day, server and model; what "
            "counts against limits, for a day; and your place in the queue's order."
        ),
    ]
    row = (
        ButtonContent(label=texts.gettext("Export"), custom_id=f"privacy:{EXPORT}"),
        ButtonContent(label=texts.gettext("Delete everything"), custom_id=f"privacy:{ASK}", dangerous=True),
    )
    text = "\n".join([f"### {heading}", *(f"- {line}" for line in lines)])
    return layout(MessageContent(heading=text, rows=(row,), tone=Tone.WAITING))


async def export(request: Request, begin: str = "") -> None:
    """Send the person all stored data, with as many of their requests and pictures as a message takes.

    `begin` is where an earlier part ends, as in the id of its button. One part is made at a time, for
    whichever person, as it may have 10 MiB.
    """
    services, user_id = request.services, request.person.id
    services.pace.admit(request.sender)
    if user_id in services.being_exported:
        raise UserMistake("export_runs")
    services.being_exported.add(user_id)
    try:
        await acknowledge(request, private=True)
        await _show_part(request, await _part(services, user_id, Position.read(begin)))
    finally:
        services.being_exported.discard(user_id)


async def _part(services: Services, user_id: int, begin: Position | None) -> Part:
    try:
        async with asyncio.timeout(EXPORT_SECONDS), services.exporting:
            return await export_part(
                services.store, services.artifacts, services.signing, user_id, begin=begin
            )
    except TimeoutError:
        raise UserMistake("export_late") from None


async def _show_part(request: Request, part: Part) -> None:
    services, user_id = request.services, request.person.id
    texts = request.texts
    count = await services.store.exports.count(user_id)
    said = [texts.ngettext("{count} request of yours is kept.", "{count} requests of yours are kept.", count)]
    shown: dict[str, Any] = {}
    if (rest := part.rest) is not None:
        left = await services.store.exports.count(user_id, up_to=rest.interaction_id)
        said.append(
            texts.ngettext(
                "{count} request, the oldest, does not fit into this file: it is in the next part.",
                "{count} requests, the oldest, do not fit into this file: they are in the next part.",
                left,
            )
        )
        shown["view"] = _next_part(rest, texts)
    if part.too_large:
        said.append(
            texts.ngettext(
                "{count} picture is too large for Discord and left out.",
                "{count} pictures are too large for Discord and left out.",
                part.too_large,
            )
        )
    file = discord.File(io.BytesIO(part.archive), filename=ARCHIVE)
    await request.edit(content=" ".join(said), attachments=[file], **shown)


def _next_part(rest: Position, texts: Texts) -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    custom_id = f"privacy:{EXPORT}{rest}"
    view.add_item(discord.ui.Button(label=texts.gettext("Next part"), custom_id=custom_id))
    view.stop()
    return view


async def ask(request: Request) -> None:
    """Ask the person to confirm the deletion."""
    await acknowledge_press(request)
    question = request.texts.gettext(
        "Delete everything? This deletes all your requests and pictures, other people's copies of them too, "
        "cancels what is waiting, and removes the messages that show them. Sheets and archives of group "
        "sessions that are already posted stay. This cannot be undone."
    )
    await request.edit(view=_with_button(question, request.texts))


def _with_button(heading: str, texts: Texts) -> discord.ui.LayoutView:
    label = texts.gettext("Delete everything now")
    row = (ButtonContent(label=label, custom_id=f"privacy:{FORGET}", dangerous=True),)
    return layout(MessageContent(heading=heading, rows=(row,), tone=Tone.FAILED))


async def forget_all(request: Request) -> None:
    """Delete everything that is stored of the person, and the messages that show it.

    The button stays until then: another press completes an interrupted deletion.
    """
    await acknowledge_press(request)
    services = request.services
    if request.person.id in services.being_deleted:
        return  # the first press reports the outcome
    services.being_deleted.add(request.person.id)
    try:
        await _forget(request, services)
    finally:
        services.being_deleted.discard(request.person.id)


async def _forget(request: Request, services: Services) -> None:
    texts = request.texts
    begun = texts.gettext("Everything of yours is being deleted. If this stops, press the button again.")
    await request.edit(view=_with_button(begun, texts))

    stayed: list[str] = []

    async def remove_messages(jobs: Sequence[Job]) -> None:
        for job in jobs:
            if services.open_interactions.ending.is_set():
                raise UserMistake("stopping")  # another press completes this
            if address := await remove_message(request.interaction.client, job):
                stayed.append(address)

    user_id = request.person.id
    count = await forget(services.store.erasure, services.files, user_id=user_id, first=remove_messages)
    said = texts.ngettext("{count} request was deleted.", "{count} requests were deleted.", count)
    if stayed:
        said += " " + texts.gettext(
            "Discord did not let the bot remove these messages, which a moderator can delete: {messages}",
            messages=" ".join(stayed[:SHOWN_MESSAGES]),
        )
    await tell_end(request, said)


async def choose(request: Request, choice: str, begin: str) -> None:
    """Export, from the beginning or where an earlier part ends, ask whether to delete, or delete."""
    if choice == EXPORT:
        await export(request, begin)
    elif choice == ASK:
        await ask(request)
    else:
        await forget_all(request)


CONTROLS = (
    Button(
        template=rf"privacy:(?P<choice>{EXPORT}|{ASK}|{FORGET})(?P<begin>(?::\d{{1,19}}:\d{{1,3}})?)",
        act=choose,
    ),
)
