"""Buttons, menus and forms that survive restarts: ids are in the `custom_id`, all else is in the store.

The module that owns the act declares its `CONTROLS`; `bot/front/features.py` lists them. discord.py keeps
open forms in memory, which a restart loses, so a submission is found by its `custom_id` too.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import discord
from discord import ComponentType

from bot.delivery.refusals import DeliveryDelayed, Refused
from bot.domain.errors import UserMistake
from bot.front.answers.answers import RETRY, answer, give_back, open_form, report
from bot.front.answers.modals import Filled
from bot.front.services.request import Request
from bot.front.uploads.messages import SentFile, file_name
from bot.store.rows.jobs import LARGEST_ID
from bot.telemetry.tracing import about

log = logging.getLogger(__name__)

KINDS: Mapping[str, Callable[[str], Any]] = MappingProxyType({"index": int, "key": int, "person": int})
"""The parsers of a template's groups; all other groups are text."""


def check_ids(ids: Mapping[str, Any]) -> None:
    """Raise UserMistake `form_forgotten` for a number that no row has, as in a forged id."""
    for number in map(str, ids.values()):
        if number.isdecimal() and int(number) > LARGEST_ID:
            raise UserMistake("form_forgotten")


@dataclass(frozen=True, kw_only=True)
class Button:
    """A button by the template of its `custom_id`; `act` is called with the request and the named groups.

    Log lines name the job where there is a group `job_id`.
    """

    template: str
    act: Callable[..., Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Menu:
    """A select menu; `act` is called with the request, the chosen values and the template's groups."""

    template: str
    act: Callable[..., Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form by the template of its `custom_id`.

    `act` is called with the request, the named groups, and what was filled in, by the inputs' ids: texts,
    and a SentFile for an upload. With `again` a refused form can be opened again, filled in: it must not
    depend on the message of its button.
    """

    template: str
    act: Callable[..., Awaitable[None]]
    again: bool = True


async def pressed(request: Request, controls: Sequence[Button | Menu]) -> None:
    """Act on a press of a button or a choice in a menu; one of no known control is ignored."""
    data = cast("Mapping[str, Any]", request.interaction.data or {})
    kind = COMPONENTS.get(data.get("component_type", 0))
    for control in controls:
        if type(control) is not kind or not (
            match := re.fullmatch(control.template, str(data.get("custom_id", "")))
        ):
            continue
        ids = {name: KINDS.get(name, str)(text) for name, text in match.groupdict().items()}
        act = functools.partial(control.act, request)
        if isinstance(control, Menu):
            act = functools.partial(act, list(data.get("values") or ()))
        await _act(request, act, ids)
        if isinstance(control, Menu):  # then the menu is ready for any choice again
            await _show_nothing_chosen(request)
        return


async def _act(
    request: Request,
    act: Callable[..., Awaitable[None]],
    ids: Mapping[str, Any],
    *,
    tell: Callable[[Request, Exception], Awaitable[None]] = report,
) -> None:
    async def checked() -> None:
        check_ids(ids)
        await act(**ids)

    with about(ids["job_id"]) if ids.get("job_id") else nullcontext():
        await answer(request, checked, tell=tell)


COMPONENTS: Mapping[int, type] = MappingProxyType({2: Button, 3: Menu})  # by Discord's types of components


async def _show_nothing_chosen(request: Request) -> None:
    """Let Discord show the placeholder of a menu again: it sends nothing for a choice that is chosen already.

    Any edit of the message does that. This edit has no content, so it never shows an older state of the
    message. Private messages can be edited only by the answers that sent them, so they keep the choice.
    """
    message = request.message
    if message is None or message.flags.ephemeral:
        return
    try:
        with request.services.rate_guard.request(by_token=False):
            await message.edit(allowed_mentions=discord.AllowedMentions.none())
    except (DeliveryDelayed, Refused) as refused:
        log.info("the choice of a menu stays: %s", refused)


async def submitted(request: Request, forms: Sequence[Form]) -> None:
    """Act on a submission; one of no known form is ignored."""
    data = cast("Mapping[str, Any]", request.interaction.data or {})
    for form in forms:
        if (match := re.fullmatch(form.template, str(data.get("custom_id", "")))) is None:
            continue
        sent = (data.get("resolved") or {}).get("attachments") or {}
        filled = dict(_filled(data.get("components") or [], sent))
        back = functools.partial(give_back, custom_id=match[0], typed=filled) if form.again else report
        await _act(request, functools.partial(form.act, request, **filled), match.groupdict(), tell=back)
        return


def _filled(
    parts: Sequence[Mapping[str, Any]], sent: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str | SentFile]]:
    """Yield the id of each input, and its text, what is chosen or the file; nothing where nothing is.

    `sent` has the files of the form by their ids.
    """
    for part in parts:
        field = part.get("component", part)
        if "custom_id" in field and field.get("value") is not None:
            yield str(field["custom_id"]), str(field["value"])
        elif "custom_id" in field and field.get("values"):
            first = str(field["values"][0])
            is_file = field.get("type") == ComponentType.file_upload.value
            yield str(field["custom_id"]), _sent_file(first, sent.get(first) or {}) if is_file else first


def _sent_file(key: str, file: Mapping[str, Any]) -> SentFile:
    """Return a file of a form, which sentences call by its name, or by its id where Discord sent no more.

    A file without an address is refused when it is fetched, in a sentence as any other.
    """
    name, size = file_name(str(file.get("filename", key))), file.get("size")
    return SentFile(
        address=str(file.get("url", "")), what=f"“{name}”", size=size if isinstance(size, int) else None
    )


async def open_again(request: Request, kept: str) -> None:
    """Open a refused form as it was filled in; raises UserMistake `words_forgotten` after a restart."""
    form = request.services.kept_forms.find(kept, user_id=request.person.id)
    await open_form(request, Filled(form))


CONTROLS = (Button(template=rf"{RETRY}:(?P<kept>[0-9a-f]{{1,32}})", act=open_again),)
