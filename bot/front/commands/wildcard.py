"""`/wildcard`: the lists of a server from which prompts draw: add, show, remove."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import discord
from discord.app_commands import Range, locale_str

from bot.domain.errors import StoreUnavailable
from bot.front.answers.answers import FORM_READ_SECONDS, acknowledge, open_form, page, page_lines
from bot.front.answers.controls import Form
from bot.front.answers.modals import modal, text_field
from bot.front.answers.permissions import kept_server
from bot.front.gateway.command_tree import Group, Option, make_command, make_group
from bot.front.recipes.options import MAX_CHOICE
from bot.front.recipes.wildcard import (
    MAX_NAME,
    read_entries,
    unknown_wildcard,
    wildcard_name,
)
from bot.front.requests.library import suggest_wildcards, wildcards_of
from bot.front.requests.words import check_texts
from bot.front.services.request import Request, patiently
from bot.store.library.named import key_of
from bot.store.library.wildcards import Wildcard
from bot.store.rows.audit import By
from bot.texts.catalogue import Texts
from bot.texts.markup import shown

LIST_CHARACTERS = 4000  # the most that Discord takes in one field
SHOWN_ENTRY = 100
ADD = "wildcard"


def wildcard_group() -> Group:
    """The command and its three subcommands."""
    name = Option(
        name="name",
        description=locale_str("The name of a list."),
        kind=Range[str, 1, MAX_CHOICE],
        autocomplete=suggest_wildcards,
    )
    commands = [
        make_command(
            name="add",
            description=locale_str("Add a list, or change the one with this name."),
            run=ask_wildcard,
            options=[name],
        ),
        make_command(
            name="show",
            description=locale_str("Show the lists of this server, or one of them."),
            run=show_wildcards,
            options=[name],
        ),
        make_command(
            name="remove",
            description=locale_str("Remove a list of this server."),
            run=remove_wildcard,
            options=[replace(name, required=True)],
        ),
    ]
    described = locale_str("Lists of words for prompts to pick from.")
    return make_group(name=ADD, description=described, commands=commands)


async def ask_wildcard(request: Request, name: str = "") -> None:
    """Open the form, filled with the list of this name if the server has it."""
    guild_id = kept_server(request)
    try:
        async with asyncio.timeout(FORM_READ_SECONDS):
            known = await request.services.store.wildcards.find(guild_id, name) if name else None
    except TimeoutError:
        raise StoreUnavailable("a list could not be read in time for a form") from None
    texts = request.texts
    entries = text_field(
        texts.gettext("Entries"),
        "entries",
        "\n".join(known.entries)[:LIST_CHARACTERS] if known else "",
        style=discord.TextStyle.paragraph,
        max_length=LIST_CHARACTERS,
        description=texts.gettext("One a line. Each request draws one of them by its seed."),
    )
    named = text_field(
        texts.gettext("Name"), "name", known.name if known else name[:MAX_NAME], max_length=MAX_NAME + 4
    )
    await open_form(request, modal(texts.gettext("List for prompts"), ADD, named, entries))


async def add_wildcard(request: Request, *, name: str, entries: str) -> None:
    """Store the list of the form."""
    request.services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    by = By(actor_id=request.person.id, guild_id=kept_server(request))
    wildcard = Wildcard(name=wildcard_name(name), entries=read_entries(entries))
    await check_texts(request, wildcard.entries, together=False)  # a prompt draws one of them
    await patiently(request.services.store.wildcards.put, wildcard, by)
    said = request.texts.gettext(
        "Saved: write {wildcard} in a prompt.", wildcard=shown(f"__{wildcard.name}__", MAX_NAME + 4)
    )
    await request.edit(content=said)


async def show_wildcards(request: Request, name: str = "") -> None:
    """Show one list, or the names of all, to the person alone."""
    await acknowledge(request, private=True)
    texts = request.texts
    wildcards = await wildcards_of(request)
    lines = entries_of(name, wildcards, texts) if name else names_of(wildcards, texts)
    await request.edit(view=page(page_lines(lines, texts)))


def entries_of(name: str, wildcards: list[Wildcard], texts: Texts) -> list[str]:
    """Return lines with the name and the entries of one list; raises as `unknown_wildcard`."""
    found = next((each for each in wildcards if key_of(each.name) == key_of(name)), None)
    if found is None:
        raise unknown_wildcard(name, wildcards)
    entries = (texts.line(texts.isolated(shown(entry, SHOWN_ENTRY)), mark="- ") for entry in found.entries)
    return [f"### {shown(found.name, MAX_NAME)}", *entries]


def names_of(wildcards: list[Wildcard], texts: Texts) -> list[str]:
    """Return a line for each list, with the number of its entries."""
    if not wildcards:
        return [texts.gettext("There are no lists here yet.")]
    lines = []
    for each in wildcards:
        count = texts.ngettext("{count} entry", "{count} entries", len(each.entries))
        lines.append(texts.line(texts.joined([shown(f"__{each.name}__", MAX_NAME + 4), count]), mark="- "))
    return lines


async def remove_wildcard(request: Request, name: str) -> None:
    """Remove a list of the server."""
    by = By(actor_id=request.person.id, guild_id=kept_server(request))
    await acknowledge(request, private=True)
    if not await patiently(request.services.store.wildcards.remove, name, by):
        raise unknown_wildcard(name, await wildcards_of(request))
    said = request.texts.gettext("Removed: the list {name}.", name=shown(name, MAX_NAME))
    await request.edit(content=said)


CONTROLS = (Form(template=ADD, act=add_wildcard),)
