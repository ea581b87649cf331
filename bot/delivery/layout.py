"""A message's content as Discord's Components V2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import discord

from bot.delivery.buttons import ButtonContent, MenuContent
from bot.delivery.content import MessageContent, Tone

COLOURS: Mapping[Tone, int] = MappingProxyType(
    {
        Tone.WAITING: 0x8A8F98,
        Tone.RUNNING: 0x4C8DFF,
        Tone.DONE: 0x3BA55D,
        Tone.FAILED: 0xD83C3E,
        Tone.CANCELLED: 0x8A8F98,
    }
)


def layout(content: MessageContent, *, file_names: Sequence[str] = ()) -> discord.ui.LayoutView:
    """Return the view that shows `content`, with the attachments `file_names` as its pictures.

    The view is stopped: the front's dynamic items answer its buttons, so discord.py need not
    remember it.
    """
    container: discord.ui.Container[discord.ui.LayoutView] = discord.ui.Container(
        accent_colour=COLOURS[content.tone]
    )
    above = "\n".join(part for part in (content.heading, content.status) if part)
    container.add_item(discord.ui.TextDisplay(above))
    for picture, file_name in zip(content.pictures, file_names, strict=False):
        gallery: discord.ui.MediaGallery[discord.ui.LayoutView] = discord.ui.MediaGallery()
        media = f"attachment://{file_name}"
        gallery.add_item(media=media, description=picture.alt, spoiler=picture.spoiler)
        container.add_item(gallery)
    if below := "\n".join(part for part in (content.footer, content.folded) if part):
        container.add_item(discord.ui.TextDisplay(below))
    for menu in content.menus:
        container.add_item(discord.ui.ActionRow(_menu(menu)))
    for number, row in enumerate(content.rows, start=1):
        if content.more is not None and number == len(content.rows):
            container.add_item(discord.ui.ActionRow(_menu(content.more)))
        container.add_item(discord.ui.ActionRow(*map(_button, row)))
    view = discord.ui.LayoutView(timeout=None)
    view.add_item(container)
    view.stop()
    return view


def _button(content: ButtonContent) -> discord.ui.Button[discord.ui.LayoutView]:
    style = discord.ButtonStyle.secondary
    if content.primary:
        style = discord.ButtonStyle.primary
    elif content.dangerous:
        style = discord.ButtonStyle.danger
    return discord.ui.Button(label=content.label, custom_id=content.custom_id, style=style)


def _menu(content: MenuContent) -> discord.ui.Select[discord.ui.LayoutView]:
    options = [
        discord.SelectOption(label=choice.label, value=choice.value, description=choice.description or None)
        for choice in content.choices
    ]
    return discord.ui.Select(
        custom_id=content.custom_id,
        placeholder=content.placeholder,
        options=options,
        max_values=min(content.most, len(options)),
    )
