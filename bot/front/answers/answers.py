"""Answers of the front: pages, refusals, and the sentence for any error."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import discord
from discord import app_commands

from bot.delivery.refusals import DEAD_TOKEN, Refusal, understand
from bot.delivery.uploads import SURE_LIMIT
from bot.domain.errors import DiscordUnavailable, PictureUnsigned, StoreUnavailable, UserMistake
from bot.front.answers.first_answers import ALREADY_ACKNOWLEDGED, FIRST_ANSWER, Answered, answered, say
from bot.front.answers.modals import filled_with
from bot.front.services.services import Interaction, services_of
from bot.front.uploads.sent_file import SentFile
from bot.texts.catalogue import Texts
from bot.texts.markup import shown
from bot.texts.mistakes import MISTAKES
from sdjax_engine.errors import InvalidRequest

log = logging.getLogger(__name__)

MAX_PAGE = 4000  # characters of all text parts of a message together
ROOM_FOR_REST = 60  # characters of the line that counts the entries left out
MAX_DETAIL = 400  # escaping can double the length, and a sentence may have two details
RETRY = "retry"  # the first part of the id of Try again; the rest is the key of a form
UNKNOWN_INTERACTION = 10062
UNTOLD = (discord.HTTPException, discord.RateLimited, DiscordUnavailable)


def page(text: str) -> discord.ui.LayoutView:
    """Return a message with text only."""
    container: discord.ui.Container[discord.ui.LayoutView] = discord.ui.Container()
    container.add_item(discord.ui.TextDisplay(text if len(text) <= MAX_PAGE else text[: MAX_PAGE - 1] + "…"))
    view = discord.ui.LayoutView(timeout=None)
    view.add_item(container)
    view.stop()
    return view


def page_lines(lines: Sequence[str], texts: Texts, *, further: int = 0, below: Sequence[str] = ()) -> str:
    """Return the lines as the text of a page: as many as fit, then how many are left out.

    `further` entries have no line here, and count as left out. All lines of `below` follow.
    """
    kept: list[str] = []
    room = MAX_PAGE - ROOM_FOR_REST - sum(len(line) + 1 for line in below)
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    if rest := len(lines) - len(kept) + further:
        kept.append(texts.ngettext("and {count} more", "and {count} more", rest))
    return "\n".join([*kept, *below])


async def refuse(
    interaction: Interaction, sentence: str, *, again: str = "", appeal: int | None = None
) -> None:
    """Show `sentence` to the person alone, after any first answer.

    `again` is the key of a form for a button that opens it, `appeal` adds a button for an appeal.
    """
    before = answered(interaction)
    buttons = _buttons(interaction, again, appeal)
    shown_with: dict[str, Any] = {"view": buttons} if buttons.children else {}
    if before is None:
        await say(interaction, content=sentence, **shown_with)
        return
    if before is Answered.PROMISED_PRIVATELY:
        await interaction.edit_original_response(content=sentence, **shown_with)
        return
    if before is Answered.PROMISED_PUBLICLY:
        # A public deferred answer cannot become private, so it is deleted.
        await interaction.delete_original_response()
    await interaction.followup.send(sentence, ephemeral=True, **shown_with)


def _buttons(interaction: Interaction, again: str, appeal: int | None) -> discord.ui.View:
    texts = services_of(interaction).texts(interaction)
    view = discord.ui.View(timeout=None)
    if again:
        style, label = discord.ButtonStyle.primary, texts.gettext("Try again")
        view.add_item(discord.ui.Button(style=style, label=label, custom_id=f"{RETRY}:{again}"))
    if appeal is not None:
        label = texts.gettext("Appeal")
        view.add_item(discord.ui.Button(label=label, custom_id=f"appeal:refused:{appeal}"))
    view.stop()
    return view


async def add(interaction: Interaction, sentence: str) -> None:
    """Show `sentence` to the person alone after an answer; it is dropped if Discord refuses it."""
    try:
        await interaction.followup.send(sentence, ephemeral=True)
    except (discord.HTTPException, discord.RateLimited, aiohttp.ClientError, OSError) as failure:
        log.warning("a hint could not be sent: %s", failure)


async def add_page(interaction: Interaction, text: str) -> None:
    """Show a person's own words to that person alone after an answer, to be copied; dropped if refused.

    A text that is too long for one message is continued in further messages.
    """
    room = MAX_PAGE - len("```\n\n```")
    try:
        while text:
            line_end = text.rfind("\n", room // 2, room)
            end = len(text) if len(text) <= room else line_end if line_end > 0 else room
            part, text = text[:end], text[end:].removeprefix("\n")
            await interaction.followup.send(view=page(f"```\n{part}\n```"), ephemeral=True)
    except (discord.HTTPException, discord.RateLimited, aiohttp.ClientError, OSError) as failure:
        log.warning("the typed text could not be sent back: %s", failure)


async def send_within_limits(interaction: Interaction, send: Callable[[int], Awaitable[None]]) -> None:
    """Call `send` with the bytes that files may have here, and with fewer where Discord refuses the size."""
    limits, place = services_of(interaction).limits_on_files, interaction.channel_id or interaction.user.id
    limit = limits.of(place, interaction.guild)
    while True:
        try:
            await send(limit)
            return
        except discord.HTTPException as error:
            if understand(error, by_token=True) is not Refusal.TOO_LARGE or limit <= SURE_LIMIT:
                raise
            limit = limits.refused(place, limit)


@asynccontextmanager
async def open_until_answered(interaction: Interaction) -> AsyncIterator[None]:
    """Surround the work of an interaction: a stop waits for it. One that is cancelled says so."""
    with services_of(interaction).open_interactions.one():
        try:
            yield
        except asyncio.CancelledError:
            if interaction.type is not discord.InteractionType.autocomplete:
                await report(interaction, UserMistake("stopping"))
            raise


async def tell_begun(interaction: Interaction, text: str) -> None:
    """Show that long work has begun, in place of the promised answer; a later error is another message."""
    await interaction.edit_original_response(view=page(text))
    interaction.extras[FIRST_ANSWER] = Answered.SAID


async def tell_end(interaction: Interaction, text: str) -> None:
    """Replace the answer by the outcome of long work; if its token has expired, send a direct message."""
    try:
        try:
            await interaction.edit_original_response(view=page(text))
        except discord.HTTPException as error:
            if error.code not in DEAD_TOKEN:
                raise
            await interaction.user.send(view=page(text))
    except (*UNTOLD, aiohttp.ClientError, OSError) as failure:
        log.warning("the end of long work could not be told: %s", failure)


async def give_back(
    interaction: Interaction, error: Exception, custom_id: str, typed: Mapping[str, str | SentFile]
) -> None:
    """Answer the error of a form with one sentence and a button that opens it as it was filled in.

    `typed` has its values by the ids of its inputs. Files are not kept, and a line says so. Where the form is
    not known, because it was opened before a restart, the words are shown to be copied.
    """
    person, services = interaction.user.id, services_of(interaction)
    words = {name: value for name, value in typed.items() if isinstance(value, str)}
    form, below = services.forms.get(custom_id, user_id=person), ""
    if form is None:
        await report(interaction, error)
        await show_words(interaction, *words.values())
        return
    if words.keys() != typed.keys():
        below = services.texts(interaction).gettext("Pictures of a form are not kept: choose them again.")
    again = services.forms.keep(filled_with(form, words), user_id=person)
    await report(interaction, error, again=again, below=below)


async def show_words(interaction: Interaction, *typed: str) -> None:
    """Show what a person typed to that person alone, to be copied."""
    await add_page(interaction, "\n\n".join(filter(None, typed)).replace("```", "\u02cb\u02cb\u02cb"))


async def report(interaction: Interaction, error: Exception, *, again: str = "", below: str = "") -> None:
    """Answer `error` with one sentence; only faults of the bot are logged with a traceback.

    `again` is the key of a form that a button opens, `below` a line under the sentence.
    """
    if _too_late(error):
        log.warning("an interaction was answered too late, or by another process too: %s", error)
        return
    refused = isinstance(error, discord.HTTPException | discord.RateLimited)
    unanswered = refused and answered(interaction) is None
    if unanswered or isinstance(error, DiscordUnavailable):
        log.warning("Discord refused an answer, so the person is told that there is none: %s", error)
        return
    services = services_of(interaction)
    services.metrics.refusals.labels(_reason(error)).inc()
    try:
        appeal = error.appeal if isinstance(error, UserMistake) else None
        sentence = sentence_for(error, services.texts(interaction))
        said = f"{sentence}\n{below}" if below else sentence
        await refuse(interaction, said, again=again, appeal=appeal)
    except (*UNTOLD, aiohttp.ClientError, OSError) as failure:
        log.warning("a refusal could not be sent: %s", failure)


def _reason(error: Exception) -> str:
    """Return the metric's label of a refusal."""
    if isinstance(error, UserMistake):
        return error.message_id
    if isinstance(error, InvalidRequest):
        return error.problem
    if isinstance(error, PictureUnsigned):
        return "picture_unsigned"
    return "store_unavailable" if isinstance(error, StoreUnavailable) else "unforeseen"


def sentence_for(error: Exception, texts: Texts) -> str:
    """Return the sentence for `error`; for a fault of the bot, with a number that is in the log."""
    if isinstance(error, StoreUnavailable):
        log.error("a command could not reach the queue: %s", error)
    if isinstance(error, PictureUnsigned):
        error = UserMistake("picture_unsigned")
    if isinstance(error, InvalidRequest | UserMistake | StoreUnavailable):
        return texts.mistake(error, tell=lambda detail: shown(str(detail), MAX_DETAIL))
    if isinstance(error, app_commands.CommandNotFound | app_commands.CommandSignatureMismatch):
        return texts.gettext(MISTAKES["outdated_command"])
    incident = secrets.token_hex(4)
    log.error("incident %s", incident, exc_info=error)
    return texts.gettext(
        "Something went wrong on the bot's side, not yours. "
        "If it happens again, tell its owner this number: {incident}.",
        incident=incident,
    )


def _too_late(error: Exception) -> bool:
    return isinstance(error, discord.HTTPException) and error.code in (
        UNKNOWN_INTERACTION,
        ALREADY_ACKNOWLEDGED,
    )
