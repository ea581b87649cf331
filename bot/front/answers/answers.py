"""Answers of the front: the first answer, pages, refusals, and the sentence for any error.

Discord takes a first answer within 3 s, and the call for it can fail. An attempt whose outcome is unknown is
repeated until Discord answers. Discord refuses the repeated answer as a second one (40060) if it took the
first: the interaction is then answered by this front. The same refusal of a first attempt means that another
front of the same shard has answered. `Counting` sees each call of the client: it knows which attempts had an
unknown outcome, and measures how long first answers take, by the names of commands and buttons (`name_of`).
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import discord
from discord import app_commands

from bot.delivery.refusals import DEAD_TOKEN, DeliveryDelayed, Refusal, understand
from bot.delivery.uploads import SURE_LIMIT
from bot.domain.errors import DiscordUnavailable, PictureUnsigned, StoreUnavailable, UserMistake
from bot.front.answers.modals import filled_with
from bot.front.services.request import Answered, Interaction, Request
from bot.front.uploads.messages import SentFile
from bot.telemetry.metrics import FrontMetrics
from bot.texts.catalogue import Texts
from bot.texts.markup import shown
from bot.texts.mistakes import MISTAKES
from sdjax_engine.errors import InvalidRequest

log = logging.getLogger(__name__)

ATTEMPT_SECONDS = 1.2  # of the first attempt; two fit into the time that Discord waits
LONGEST_ATTEMPT_SECONDS = 10.0
PAUSE_SECONDS = 0.1  # before the second attempt; twice as long before each further one
LONGEST_PAUSE_SECONDS = 5.0
FORM_READ_SECONDS = 2.0  # for all reads before a form, which Discord takes only as the first answer
PATIENCE_SECONDS = 60.0  # the person may read "thinking…" all this time
ALREADY_ACKNOWLEDGED = 40060
CALLBACK = re.compile(r"/interactions/(\d+)/[^/]+/callback$")
MOST_OPEN = 10_000  # interactions without a first answer

Sent = discord.InteractionCallbackResponse[Any] | None
MAX_PAGE = 4000  # characters of all text parts of a message together
ROOM_FOR_REST = 60  # characters of the line that counts the entries left out
MAX_DETAIL = 400  # escaping can double the length, and a sentence may have two details
RETRY = "retry"  # the first part of the id of Try again; the rest is the key of a form
UNKNOWN_INTERACTION = 10062
UNTOLD = (discord.HTTPException, discord.RateLimited, DiscordUnavailable)


async def acknowledge(request: Request, *, private: bool) -> int | None:
    """Promise a message, public or private, and return its id where Discord sends it.

    Raises discord.HTTPException where Discord refuses, DiscordUnavailable where it is not reached in time.
    """
    kind = Answered.PROMISED_PRIVATELY if private else Answered.PROMISED_PUBLICLY
    return await _answer(
        request, lambda: request.interaction.response.defer(ephemeral=private, thinking=True), kind
    )


async def acknowledge_press(request: Request) -> None:
    """Acknowledge a button's press; the message with the button stays.

    Raises like `acknowledge`.
    """
    await _answer(request, request.interaction.response.defer, Answered.PRESSED)


async def say(request: Request, **message: Any) -> None:
    """Answer with a message to the person alone: the arguments of discord.py's `send_message`.

    Raises like `acknowledge`.
    """
    await _answer(
        request, lambda: request.interaction.response.send_message(ephemeral=True, **message), Answered.SAID
    )


async def open_form(request: Request, modal: discord.ui.Modal) -> None:
    """Answer with a form, and remember it for its person: a refused form can be opened again.

    Raises like `acknowledge`.
    """
    forms, form = request.services.kept_forms, modal.to_dict()
    forms.keep(form, user_id=request.person.id, key=modal.custom_id)
    await _answer(request, lambda: request.interaction.response.send_modal(modal), Answered.ASKED)


async def _answer(request: Request, attempt: Callable[[], Awaitable[Sent]], kind: Answered) -> int | None:
    began, number = time.monotonic(), 0
    while True:
        try:
            request.services.rate_guard.check_first_answer()
        except DeliveryDelayed as error:
            raise DiscordUnavailable(f"An interaction is not answered: {error}.") from error
        try:
            async with asyncio.timeout(min(ATTEMPT_SECONDS * 2**number, LONGEST_ATTEMPT_SECONDS)):
                sent = await attempt()
            break
        except discord.HTTPException as error:
            if error.code == ALREADY_ACKNOWLEDGED and request.services.was_unclear(request.interaction.id):
                sent = None
                break
            if error.status < 500:
                raise
            await _pause(number, began, error)
        except (aiohttp.ClientError, OSError) as error:
            await _pause(number, began, error)
        number += 1
    if kind is Answered.PROMISED_PUBLICLY and sent is not None and sent.is_ephemeral():
        kind = Answered.PROMISED_PRIVATELY
    request.answered = kind
    return None if sent is None else sent.message_id


async def _pause(number: int, began: float, error: Exception) -> None:
    """Wait before the next attempt; raises DiscordUnavailable after the last."""
    if time.monotonic() - began > PATIENCE_SECONDS:
        raise DiscordUnavailable(f"Discord took no answer to an interaction: {error!r}.") from error
    await asyncio.sleep(min(PAUSE_SECONDS * 2**number, LONGEST_PAUSE_SECONDS))


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


async def refuse(request: Request, sentence: str, *, again: str = "", appeal: int | None = None) -> None:
    """Show `sentence` to the person alone, after any first answer.

    `again` is the key of a form for a button that opens it, `appeal` adds a button for an appeal.
    """
    before = request.answered
    buttons = _buttons(request, again, appeal)
    shown_with: dict[str, Any] = {"view": buttons} if buttons.children else {}
    if before is None:
        await say(request, content=sentence, **shown_with)
        return
    if before is Answered.PROMISED_PRIVATELY:
        await request.edit(content=sentence, **shown_with)
        return
    if before is Answered.PROMISED_PUBLICLY:
        # A public deferred answer cannot become private, so it is deleted.
        await request.interaction.delete_original_response()
    await request.interaction.followup.send(sentence, ephemeral=True, **shown_with)


def _buttons(request: Request, again: str, appeal: int | None) -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    if again:
        style, label = discord.ButtonStyle.primary, request.texts.gettext("Try again")
        view.add_item(discord.ui.Button(style=style, label=label, custom_id=f"{RETRY}:{again}"))
    if appeal is not None:
        label = request.texts.gettext("Appeal")
        view.add_item(discord.ui.Button(label=label, custom_id=f"appeal:refused:{appeal}"))
    view.stop()
    return view


async def add(request: Request, sentence: str) -> None:
    """Show `sentence` to the person alone after an answer; it is dropped if Discord refuses it."""
    try:
        await request.interaction.followup.send(sentence, ephemeral=True)
    except (discord.HTTPException, discord.RateLimited, aiohttp.ClientError, OSError) as failure:
        log.warning("a hint could not be sent: %s", failure)


async def add_page(request: Request, text: str) -> None:
    """Show a person's own words to that person alone after an answer, to be copied; dropped if refused.

    A text that is too long for one message is continued in further messages.
    """
    room = MAX_PAGE - len("```\n\n```")
    try:
        while text:
            line_end = text.rfind("\n", room // 2, room)
            end = len(text) if len(text) <= room else line_end if line_end > 0 else room
            part, text = text[:end], text[end:].removeprefix("\n")
            await request.interaction.followup.send(view=page(f"```\n{part}\n```"), ephemeral=True)
    except (discord.HTTPException, discord.RateLimited, aiohttp.ClientError, OSError) as failure:
        log.warning("the typed text could not be sent back: %s", failure)


async def send_within_limits(request: Request, send: Callable[[int], Awaitable[None]]) -> None:
    """Call `send` with the bytes that files may have here, and with fewer where Discord refuses the size."""
    limits, place = request.services.limits_on_files, request.channel_id or request.person.id
    limit = limits.of(place, request.interaction.guild)
    while True:
        try:
            await send(limit)
            return
        except discord.HTTPException as error:
            if understand(error, by_token=True) is not Refusal.TOO_LARGE or limit <= SURE_LIMIT:
                raise
            limit = limits.refused(place, limit)


async def answer(
    request: Request,
    act: Callable[[], Awaitable[None]],
    *,
    tell: Callable[[Request, Exception], Awaitable[None]] | None = None,
) -> None:
    """Act on a request: a stop waits for it, and `tell`, by default `report`, answers any error.

    A request that is cancelled says that the bot stops.
    """
    with request.services.open_interactions.one():
        try:
            try:
                request.services.pace.act(request.sender)
                await act()
            except Exception as error:  # noqa: BLE001 - the outermost handler: `report` answers and logs
                await (tell or report)(request, error)
        except asyncio.CancelledError:
            await report(request, UserMistake("stopping"))
            raise


async def tell_begun(request: Request, text: str) -> None:
    """Show that long work has begun, in place of the promised answer; a later error is another message."""
    await request.edit(view=page(text))
    request.answered = Answered.SAID


async def tell_end(request: Request, text: str) -> None:
    """Replace the answer by the outcome of long work; if its token has expired, send a direct message."""
    try:
        try:
            await request.edit(view=page(text))
        except discord.HTTPException as error:
            if error.code not in DEAD_TOKEN:
                raise
            await request.person.send(view=page(text))
    except (*UNTOLD, aiohttp.ClientError, OSError) as failure:
        log.warning("the end of long work could not be told: %s", failure)


async def give_back(
    request: Request, error: Exception, custom_id: str, typed: Mapping[str, str | SentFile]
) -> None:
    """Answer the error of a form with one sentence and a button that opens it as it was filled in.

    `typed` has its values by the ids of its inputs. Files are not kept, and a line says so. Where the form is
    not known, because it was opened before a restart, the words are shown to be copied.
    """
    person, services = request.person.id, request.services
    words = {name: value for name, value in typed.items() if isinstance(value, str)}
    form, below = services.kept_forms.get(custom_id, user_id=person), ""
    if form is None:
        await report(request, error)
        await show_words(request, *words.values())
        return
    if words.keys() != typed.keys():
        below = request.texts.gettext("Pictures of a form are not kept: choose them again.")
    again = services.kept_forms.keep(filled_with(form, words), user_id=person)
    await report(request, error, again=again, below=below)


async def show_words(request: Request, *typed: str) -> None:
    """Show what a person typed to that person alone, to be copied."""
    await add_page(request, "\n\n".join(filter(None, typed)).replace("```", "\u02cb\u02cb\u02cb"))


async def report(request: Request, error: Exception, *, again: str = "", below: str = "") -> None:
    """Answer `error` with one sentence; only faults of the bot are logged with a traceback.

    `again` is the key of a form that a button opens, `below` a line under the sentence.
    """
    if _too_late(error):
        log.warning("an interaction was answered too late, or by another process too: %s", error)
        return
    refused = isinstance(error, discord.HTTPException | discord.RateLimited)
    unanswered = refused and request.answered is None
    if unanswered or isinstance(error, DiscordUnavailable):
        log.warning("Discord refused an answer, so the person is told that there is none: %s", error)
        return
    request.services.metrics.refusals.labels(_reason(error)).inc()
    try:
        appeal = error.appeal if isinstance(error, UserMistake) else None
        sentence = sentence_for(error, request.texts)
        said = f"{sentence}\n{below}" if below else sentence
        await refuse(request, said, again=again, appeal=appeal)
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


class Counting:
    """Counts interactions, their first answers, and all requests to Discord.

    `clock` is monotonic, `wall` is in seconds since the epoch.
    """

    def __init__(
        self,
        metrics: FrontMetrics,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._wall = wall
        self._arrived: dict[int, float] = {}
        self._unclear: dict[int, None] = {}

    def arrived(self, interaction: Interaction) -> None:
        """Count an interaction that has arrived."""
        self._arrived[interaction.id] = self._clock()
        _shorten(self._arrived)
        if interaction.type is not discord.InteractionType.autocomplete:
            self._metrics.commands.labels(name_of(interaction)).inc()

    def trace(self) -> aiohttp.TraceConfig:
        """Return an aiohttp trace that counts each attempt of a client's requests by its outcome."""
        trace = aiohttp.TraceConfig()

        async def answered(
            _session: aiohttp.ClientSession, _context: SimpleNamespace, end: aiohttp.TraceRequestEndParams
        ) -> None:
            self.answered(end.url.path, end.response.status)

        async def failed(
            _session: aiohttp.ClientSession,
            _context: SimpleNamespace,
            end: aiohttp.TraceRequestExceptionParams,
        ) -> None:
            if isinstance(end.exception, discord.DiscordException):
                return  # Discord's answer, which the rate guard replaces by an error; it is counted already
            self._lost(end.url.path)
            if not isinstance(end.exception, asyncio.CancelledError):
                self._metrics.discord_requests.labels("unreachable").inc()

        trace.on_request_end.append(answered)
        trace.on_request_exception.append(failed)
        return trace

    def answered(self, path: str, status: int) -> None:
        """Count a request that Discord has answered, perhaps the first answer to an interaction."""
        self._metrics.discord_requests.labels("429" if status == 429 else f"{status // 100}xx").inc()
        if status >= 500:
            self._lost(path)
        elif callback := CALLBACK.search(path):
            number = int(callback[1])
            arrived = self._arrived.pop(number, None)
            if arrived is not None and status < 300:
                self._metrics.acknowledgement.observe(self._clock() - arrived)
                asked = discord.utils.snowflake_time(number).timestamp()
                self._metrics.acknowledgement_since_asked.observe(max(0.0, self._wall() - asked))

    def was_unclear(self, interaction_id: int) -> bool:
        """Return whether an attempt at a first answer to this interaction had an unknown outcome."""
        return interaction_id in self._unclear

    def _lost(self, path: str) -> None:
        if callback := CALLBACK.search(path):
            self._unclear[int(callback[1])] = None
            _shorten(self._unclear)


def _shorten(by_interaction: dict[int, Any]) -> None:
    while len(by_interaction) > MOST_OPEN:
        del by_interaction[next(iter(by_interaction))]


def name_of(interaction: Interaction) -> str:
    """Return the metric's label of a command or a button: a button by the first word of its id."""
    data: Mapping[str, Any] = cast("Mapping[str, Any]", interaction.data or {})
    return str(data.get("name") or str(data.get("custom_id", "")).partition(":")[0])
