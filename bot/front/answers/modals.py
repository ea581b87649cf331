"""Modals, Discord's forms: discord.py only sends them, and `bot.front.answers.controls` reads submissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import discord

from bot.domain.holds import MOST_REASON
from bot.front.services.request import FormPayload
from bot.front.uploads.messages import FILE_TYPES, PICTURES
from bot.texts.catalogue import Texts

MAX_TITLE = 45  # characters
MAX_NAME = 100  # characters of a choice, and of its value
MAX_INPUT = 4000  # characters of one input
RADIO_BUTTONS = range(2, 11)  # how many a group may have
CHECKED = str(True)  # what a checked checkbox is filled in with
SETTINGS = "settings"  # the id of the input for a line of settings


def modal(title: str, custom_id: str, *parts: discord.ui.Item[Any]) -> discord.ui.Modal:
    """Return a modal that discord.py does not keep in memory once it is sent."""
    made = discord.ui.Modal(title=title[:MAX_TITLE], custom_id=custom_id, timeout=None)
    for part in parts:
        made.add_item(part)
    made.stop()
    return made


class Filled(discord.ui.Modal):
    """A form that is sent as `payload` has it."""

    def __init__(self, payload: FormPayload) -> None:
        super().__init__(title=payload["title"], custom_id=payload["custom_id"], timeout=None)
        self._payload = payload
        self.stop()

    def to_dict(self) -> dict[str, Any]:
        """Return the payload."""
        return dict(self._payload)


def filled_with(form: FormPayload, typed: Mapping[str, str]) -> FormPayload:
    """Return a form whose inputs and menus hold what was typed, by their ids."""
    return {**form, "components": [_with(part, typed) for part in form["components"]]}


def _with(part: Mapping[str, Any], typed: Mapping[str, str]) -> Mapping[str, Any]:
    inner = part.get("component", part)
    if inner.get("custom_id") not in typed:
        return part
    value = typed[inner["custom_id"]]
    if inner["type"] == discord.ComponentType.checkbox.value:
        return {**part, "component": {**inner, "default": value == CHECKED}}
    if "options" in inner:
        options = [{**option, "default": option["value"] == value} for option in inner["options"]]
        return {**part, "component": {**inner, "options": options}}
    return {**part, "component": {**inner, "value": value}}


def choice_field(
    label: str,
    custom_id: str,
    choices: Sequence[str],
    *,
    chosen: int | None = 0,
    values: Sequence[str] = (),
    description: str | None = None,
) -> discord.ui.Label[Any]:
    """Return radio buttons for up to ten `choices`, or a menu; the one at `chosen`, if any, is preselected.

    Without `values` their values are their indices.
    """
    options: list[dict[str, Any]] = [
        {"label": each[:MAX_NAME], "value": values[i] if values else str(i), "default": i == chosen}
        for i, each in enumerate(choices)
    ]
    part: discord.ui.Item[Any]
    if len(choices) in RADIO_BUTTONS:
        buttons = [discord.RadioGroupOption(**option) for option in options]
        part = discord.ui.RadioGroup(custom_id=custom_id, options=buttons)
    else:
        part = discord.ui.Select(
            custom_id=custom_id, options=[discord.SelectOption(**option) for option in options]
        )
    return discord.ui.Label(text=label, description=description, component=part)


def checkbox_field(label: str, custom_id: str, *, checked: bool) -> discord.ui.Label[Any]:
    """Return a checkbox; it is filled in with `CHECKED`, or with another text."""
    return discord.ui.Label(text=label, component=discord.ui.Checkbox(custom_id=custom_id, default=checked))


def text_field(
    label: str, custom_id: str, text: str, *, description: str | None = None, **how: Any
) -> discord.ui.Label[Any]:
    """Return an input for text, filled with `text`; `how` are the arguments of discord.py's `TextInput`."""
    typed: discord.ui.TextInput[Any] = discord.ui.TextInput(custom_id=custom_id, default=text or None, **how)
    return discord.ui.Label(text=label, description=description, component=typed)


def reason_field(
    texts: Texts,
    description: str,
    *,
    required: bool = False,
    label: str = "",
    custom_id: str = "reason",
    most: int = MOST_REASON,
) -> discord.ui.Label[Any]:
    """Return an input for a reason in a person's words, by default called “Reason”."""
    return text_field(
        label or texts.gettext("Reason"),
        custom_id,
        "",
        description=description,
        style=discord.TextStyle.paragraph,
        required=required,
        max_length=most,
    )


def picture_field(
    label: str, custom_id: str, *, description: str, required: bool = False
) -> discord.ui.Label[Any]:
    """Return an input for one picture, which Discord's client lets a person choose among picture files."""
    upload: discord.ui.FileUpload[Any] = _PictureUpload(
        custom_id=custom_id, required=required, min_values=int(required), max_values=1
    )
    return discord.ui.Label(text=label, description=description, component=upload)


class _PictureUpload(discord.ui.FileUpload[Any]):
    """An upload that tells Discord the types of its files, which discord.py 2.7 cannot."""

    def to_component_dict(self) -> Any:
        """Return Discord's form of the upload."""
        return {**super().to_component_dict(), FILE_TYPES: list(PICTURES)}


def settings_field(texts: Texts, line: str, *, description: str | None = None) -> discord.ui.Label[Any]:
    """Return the input for a line of settings, filled with `line`.

    A line that is too long is cut and ends in `…`. No setting has that, so the line is refused if it is
    submitted unchanged, instead of changing a setting silently.
    """
    if len(line) > MAX_INPUT:
        line = line[: MAX_INPUT - 1] + "…"
    label = texts.gettext("Settings")
    return text_field(label, SETTINGS, line, required=False, max_length=MAX_INPUT, description=description)
