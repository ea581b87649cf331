"""`/settings`: the options that a person, a channel or a server prefers, in a form."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import discord
from discord.app_commands import locale_str

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.front.answers.answers import FORM_READ_SECONDS, acknowledge, open_form
from bot.front.answers.controls import Form
from bot.front.answers.modals import choice_field, modal, settings_field, text_field
from bot.front.gateway.command_tree import Command, Option, make_command
from bot.front.recipes.options import MAX_CHOICES, NEGATIVE_PROMPT, check, nearest, reported_with, size_name
from bot.front.recipes.settings_line import PREFERABLE, options_line, settings_in
from bot.front.recipes.style import NO_STYLE, STYLE
from bot.front.requests.intake import owners_of
from bot.front.requests.library import style_of
from bot.front.requests.recipe_form import SIZE
from bot.front.requests.words import check_texts
from bot.front.services.request import Request, patiently
from bot.store.people.preferences import PREVIEWS, Owner, Scope
from bot.texts.catalogue import Texts
from bot.texts.markup import shown
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import MAX_PROMPT_CHARACTERS, Offer

SHOWN_LINE = 400
UNSET = "unset"  # the choice of a setting that is not set here
SWITCH = ("on", "off")


def settings_command() -> Command:
    """The command."""
    return make_command(
        name="settings",
        description=locale_str("What /imagine uses when you leave an option out."),
        run=show_settings,
        options=[
            Option(
                name="scope",
                description=locale_str("Yours, this channel's or this server's. Default: yours."),
                kind=str,
                choices=[
                    (locale_str("Your settings", words=True), Scope.ME.value),
                    (locale_str("This channel's settings", words=True), Scope.CHANNEL.value),
                    (locale_str("This server's settings", words=True), Scope.SERVER.value),
                ],
            )
        ],
    )


def owner_of(request: Request, scope: Scope) -> Owner:
    """Return the owner of this scope, whose preferences the person may change; raises UserMistake."""
    found = [owner for owner in owners_of(request) if owner.scope is scope]
    if not found or (scope is not Scope.ME and not request.interaction.is_guild_integration()):
        raise UserMistake("settings_no_server")
    rights = request.interaction.permissions
    allowed = {Scope.ME: True, Scope.CHANNEL: rights.manage_channels, Scope.SERVER: rights.manage_guild}
    if not allowed[scope]:
        raise UserMistake(f"settings_{scope.value}_right")
    return found[0]


async def show_settings(request: Request, scope: str = Scope.ME.value) -> None:
    """Open the form with the present values, and say where each comes from."""
    owner = owner_of(request, Scope(scope))
    owners = owners_of(request)
    store = request.services.store
    try:
        async with asyncio.timeout(FORM_READ_SECONDS):
            all_options = await store.preferences.of(*owners)
    except TimeoutError:
        raise StoreUnavailable("preferences could not be read in time for a form") from None
    texts = request.texts
    own = dict(all_options[owners.index(owner)])
    names = _names(request)
    in_force = "\n".join(_in_force(owners, all_options, names, texts))
    choices = [_size_field(own, request.services.offers, texts), _previews_field(own, texts)]
    parts: list[discord.ui.Item[Any]] = [
        discord.ui.TextDisplay(in_force),
        *choices,
        settings_field(
            texts,
            options_line(own, names),
            description=texts.gettext("Such as: steps 30, guidance 7. Leave it empty to reset."),
        ),
        text_field(
            texts.gettext("Not in the picture"),
            NEGATIVE_PROMPT,
            own.get(NEGATIVE_PROMPT, ""),
            style=discord.TextStyle.paragraph,
            required=False,
            max_length=MAX_PROMPT_CHARACTERS,
        ),
    ]
    await open_form(request, modal(_title(owner.scope, texts), f"settings:{scope}", *parts))


def _size_field(own: dict[str, Any], offers: Sequence[Offer], texts: Texts) -> discord.ui.Item[Any]:
    """Return the choice of sizes, and take the chosen one out of `own`."""
    sizes = list(dict.fromkeys(size for offer in offers for size in offer.sizes))[: MAX_CHOICES - 1]
    values = [UNSET, *(f"{width}x{height}" for width, height in sizes)]
    chosen = own.pop(SIZE) if own.get(SIZE) in values else UNSET
    names = [texts.gettext("Not set here"), *map(size_name, sizes)]
    return choice_field(texts.gettext("Size"), SIZE, names, values=values, chosen=values.index(chosen))


def _previews_field(own: dict[str, Any], texts: Texts) -> discord.ui.Item[Any]:
    """Return the choice of previews, and take it out of `own`."""
    values, chosen = [UNSET, *SWITCH], own.pop(PREVIEWS, None)
    names = [texts.gettext("Not set here"), texts.pgettext("switch", "on"), texts.pgettext("switch", "off")]
    place = 0 if chosen is None else values.index(SWITCH[not chosen])
    label = texts.gettext("Previews while a picture is painted")
    return choice_field(label, PREVIEWS, names, values=values, chosen=place)


async def change_settings(
    request: Request,
    scope: str,
    *,
    settings: str = "",
    negative_prompt: str = "",
    size: str = UNSET,
    previews: str = UNSET,
) -> None:
    """Store the values of the form; a setting that is typed too counts before its choice."""
    request.services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    names, texts = _names(request), request.texts
    owner = owner_of(request, Scope(scope))
    chosen = [f"{name} {value}" for name, value in ((SIZE, size), (PREVIEWS, previews)) if value != UNSET]
    options, wrong = settings_in(", ".join([*chosen, settings]), names, settings=PREFERABLE)
    if negative_prompt.strip():
        options[NEGATIVE_PROMPT] = negative_prompt
    if options.get(STYLE) not in (None, NO_STYLE):
        options[STYLE] = (await style_of(request, options[STYLE])).name
    with reported_with(wrong):
        await _check_in_company(request, owner, options)
    if owner.scope is not Scope.ME:  # a person's own apply elsewhere too; a refused one is left out later
        await check_texts(request, [negative_prompt])
    await patiently(request.services.store.preferences.put, owner, options)
    said = texts.gettext("Saved.") if options else texts.gettext("Reset.")
    await request.edit(content=said)


async def _check_in_company(request: Request, owner: Owner, options: Mapping[str, Any]) -> None:
    """Raise as `check` for options that suit neither alone nor with the model of a wider scope."""
    services, owners = request.services, owners_of(request)
    wider = await services.store.preferences.of(*owners[owners.index(owner) + 1 :])
    model = nearest(wider).get("model")
    try:
        check({**({"model": model} if model else {}), **options}, services.offers)
    except (InvalidRequest, UserMistake):
        check(options, services.offers)


def _in_force(
    owners: Sequence[Owner], all_options: Sequence[Mapping[str, Any]], names: Texts, texts: Texts
) -> list[str]:
    """Return a line for each scope that has options, the nearest first."""
    lines = []
    for owner, options in zip(owners, all_options, strict=True):
        line = options_line(options, names)
        if negative := options.get(NEGATIVE_PROMPT):
            without = texts.gettext("without: {negative}", negative=negative)
            line = ", ".join(filter(None, (line, without)))
        if line:
            lines.append(texts.line(f"**{_title(owner.scope, texts)}**: {shown(line, SHOWN_LINE)}"))
    if not lines:
        return [texts.gettext("Nothing is set: the model's defaults are used.")]
    return [texts.gettext("In effect now, the most specific first:"), *lines]


def _title(scope: Scope, texts: Texts) -> str:
    titles = {
        Scope.ME: texts.gettext("Your settings"),
        Scope.CHANNEL: texts.gettext("This channel's settings"),
        Scope.SERVER: texts.gettext("This server's settings"),
    }
    return titles[scope]


def _names(request: Request) -> Texts:
    """Return the texts with the names of options that the person's Discord shows."""
    return request.names


CONTROLS = (Form(template=r"settings:(?P<scope>me|channel|server)", act=change_settings),)
