"""`/style`: the styles of a server: add, show, remove."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import discord
from discord.app_commands import Range, locale_str

from bot.delivery.lineage import MESSAGE_ADDRESS, message_address
from bot.domain.errors import StoreUnavailable, UnknownJob, UserMistake
from bot.front.answers.answers import FORM_READ_SECONDS, acknowledge, open_form, page, page_lines
from bot.front.answers.controls import Form
from bot.front.answers.modals import modal, settings_field, text_field
from bot.front.answers.permissions import kept_server, sees
from bot.front.gateway.command_tree import Group, Option, make_command, make_group
from bot.front.recipes.options import MAX_CHOICE, check, reported_with
from bot.front.recipes.settings_line import OF_STYLES, options_line, settings_in
from bot.front.recipes.style import MAX_NAME, MAX_TEXT, find, style_name, style_text, unknown_style
from bot.front.requests.library import style_of, styles_of, suggest_styles
from bot.front.requests.words import check_texts
from bot.front.services.request import Request, patiently
from bot.store.library.named import key_of
from bot.store.library.styles import Style
from bot.store.rows.audit import By
from bot.texts.catalogue import Texts
from bot.texts.markup import shown

EXAMPLE_CHARACTERS = 120
SHOWN_TEXT = 500
SHOWN_LINE = 90
ADD = "style"
ADDRESS = re.compile(
    r"https://(?:\w+\.)?discord\.com/channels/(?P<place>\d+)/(?P<channel>\d+)/(?P<message>\d+)"
)
JOB_ID = re.compile(r"[0-9a-z]{1,16}")


def style_group() -> Group:
    """The command and its three subcommands."""
    # Discord hides a whole command from members without a permission, never a subcommand. All members may
    # look at styles, so the right to change them is checked when the command is used.
    name = Option(
        name="name",
        description=locale_str("The name of a style."),
        kind=Range[str, 1, MAX_CHOICE],
        autocomplete=suggest_styles,
    )
    commands = [
        make_command(
            name="add",
            description=locale_str("Add a style, or change the one with this name."),
            run=ask_style,
            options=[name],
        ),
        make_command(
            name="show",
            description=locale_str("Show the styles of this server, or one of them."),
            run=show_styles,
            options=[name],
        ),
        make_command(
            name="remove",
            description=locale_str("Remove a style of this server."),
            run=remove_style,
            options=[replace(name, required=True)],
        ),
    ]
    return make_group(
        name=ADD, description=locale_str("Styles add words and settings to a prompt."), commands=commands
    )


async def ask_style(request: Request, name: str = "") -> None:
    """Open the form, filled with the style of this name if the server has it."""
    guild_id = kept_server(request)
    try:
        async with asyncio.timeout(FORM_READ_SECONDS):
            known = await request.services.store.styles.find(guild_id, name) if name else None
    except TimeoutError:
        raise StoreUnavailable("a style could not be read in time for a form") from None
    style = known or find(name, request.services.styles) or Style(name=name[:MAX_NAME])
    await open_form(request, _form(style, request.texts, names=_names(request)))


def _form(style: Style, texts: Texts, *, names: Texts) -> discord.ui.Modal:
    long: dict[str, Any] = {"style": discord.TextStyle.paragraph, "required": False, "max_length": MAX_TEXT}
    return modal(
        texts.gettext("Style"),
        ADD,
        text_field(texts.gettext("Name"), "name", style.name, max_length=MAX_NAME),
        text_field(
            texts.gettext("Prompt"),
            "prompt",
            style.prompt,
            description=texts.gettext(
                "{place} stands for the person's prompt; without it, their prompt comes first.",
                place="{prompt}",
            ),
            **long,
        ),
        text_field(texts.gettext("Not in the picture"), "negative_prompt", style.negative_prompt, **long),
        settings_field(
            texts,
            options_line(style.options, names),
            description=texts.gettext("Such as: steps 30, guidance 7, lora ink:0.8."),
        ),
        text_field(
            texts.gettext("Example"),
            "example",
            style.example,
            required=False,
            max_length=EXAMPLE_CHARACTERS,
            description=texts.gettext("The link of a message with a picture of this style."),
        ),
    )


async def add_style(
    request: Request,
    *,
    name: str,
    prompt: str = "",
    negative_prompt: str = "",
    settings: str = "",
    example: str = "",
) -> None:
    """Store the style of the form."""
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    by = By(actor_id=request.person.id, guild_id=kept_server(request))
    options, wrong = settings_in(settings, _names(request), settings=OF_STYLES)
    with reported_with(wrong):
        check(options, services.offers)
    style = Style(
        name=style_name(name),
        prompt=style_text(prompt),
        negative_prompt=style_text(negative_prompt),
        options=options,
        example=await _example(request, example.strip()),
    )
    await check_texts(request, [style.prompt, style.negative_prompt])
    await patiently(services.store.styles.put, style, by)
    said = request.texts.gettext("Saved: the style {style}.", style=shown(style.name, MAX_NAME))
    await request.edit(content=said)


async def _example(request: Request, text: str) -> str:
    """Return the address of a message of this server, from its link or from the id of its job."""
    if not text:
        return ""
    if (link := ADDRESS.fullmatch(text)) and int(link["place"]) == request.guild_id:
        return MESSAGE_ADDRESS.format(**link.groupdict())
    if JOB_ID.fullmatch(text):
        try:
            job = await request.services.store.jobs.get(text)
        except UnknownJob:
            raise UserMistake("style_example") from None
        address = message_address(job) if sees(request, job) else None
        if address is not None and job.message_channel_id is None:
            return address
    raise UserMistake("style_example")


async def show_styles(request: Request, name: str = "") -> None:
    """Show one style, or the names of all, to the person alone."""
    await acknowledge(request, private=True)
    texts = request.texts
    if name:
        style = await style_of(request, name)
        lines = [f"### {shown(style.name, MAX_NAME)}", *described(style, texts, names=_names(request))]
    else:
        lines = listed(await styles_of(request), texts)
    await request.edit(view=page(page_lines(lines, texts)))


def described(style: Style, texts: Texts, *, names: Texts) -> Iterator[str]:
    """Yield the lines of one style."""
    if style.prompt:
        yield texts.line(texts.isolated(shown(style.prompt, SHOWN_TEXT)))
    if style.negative_prompt:
        yield texts.line(
            texts.gettext("without: {negative}", negative=shown(style.negative_prompt, SHOWN_TEXT))
        )
    if line := options_line(style.options, names):
        yield texts.line(texts.isolated(shown(line, SHOWN_TEXT)))
    if style.example:
        yield texts.line(f"[{texts.gettext('Example')}]({style.example})")


def listed(styles: list[Style], texts: Texts) -> list[str]:
    """Return a line for each style: its name, and the beginning of its text."""
    if not styles:
        return [texts.gettext("There are no styles here yet.")]
    lines = [texts.gettext("The styles here:")]
    for style in reversed({key_of(each.name): each for each in reversed(styles)}.values()):
        beginning = [shown(style.prompt, SHOWN_LINE)] if style.prompt else []
        name = f"**{shown(style.name, MAX_NAME)}**"
        lines.append(texts.line(texts.joined([name, *beginning]), mark="- "))
    return lines


async def remove_style(request: Request, name: str) -> None:
    """Remove a style of the server."""
    by = By(actor_id=request.person.id, guild_id=kept_server(request))
    await acknowledge(request, private=True)
    if not await patiently(request.services.store.styles.remove, name, by):
        if find(name, request.services.styles):
            raise UserMistake("style_of_all")
        raise unknown_style(name, await styles_of(request))
    said = request.texts.gettext("Removed: the style {style}.", style=shown(name, MAX_NAME))
    await request.edit(content=said)


def _names(request: Request) -> Texts:
    """Return the texts with the names of options that the person's Discord shows."""
    return request.names


CONTROLS = (Form(template=ADD, act=add_style),)
