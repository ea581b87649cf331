"""“Use this recipe” in the menu of a message: a form with its generation data, which queues a job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import discord
from discord.app_commands import locale_str

from bot.delivery.content import ButtonContent, MessageContent, Tone
from bot.delivery.discord_requests import layout
from bot.domain.errors import UserMistake
from bot.front.answers.answers import acknowledge, open_form
from bot.front.answers.controls import Button, Form
from bot.front.commands.paint_from import NAME as PAINT_FROM
from bot.front.gateway.command_tree import MessageMenu, make_menu
from bot.front.recipes.options import clean
from bot.front.requests.intake import accept, announce, enqueue
from bot.front.requests.pasted_recipe import difference_lines
from bot.front.requests.recipe_form import (
    ALL,
    ALONE,
    MAX_PARTS,
    RECIPE,
    in_time,
    painted_fields,
    recipe_form,
    recipe_of,
)
from bot.front.results.remix import open_remix
from bot.front.services.request import Request
from bot.front.uploads.messages import (
    MessageFile,
    MessageRecipe,
    check_no_sheet,
    file_name,
    files_of,
    of_message,
    read_file,
    read_texts,
    recipe_settings,
    result_of,
    telling,
    texts_of,
)
from bot.generation_data import Fitted, fit
from bot.texts.catalogue import Texts
from bot.texts.markup import shown
from sdjax_engine.errors import InvalidRequest

NAME = "Use this recipe"
READ = "recipe_read"
MOST_FILES = 4  # that are read for one request
FORM_SECONDS = 1.5  # Discord takes a form only as the first answer, within 3 s
SHOWN_NAME = 60


def use_recipe_menu() -> MessageMenu:
    """The command."""
    return make_menu(name=locale_str(NAME), run=use_recipe)


async def use_recipe(request: Request, message: discord.Message) -> None:
    """Open a form with the generation data of the message, or Remix where it is a result of this bot."""
    private = message.flags.ephemeral
    if job_id := result_of(message, request.bot_id):
        await open_remix(request, job_id, message=message)
        return
    check_no_sheet(message, request.bot_id)
    services, sender = request.services, request.sender
    data = await services.judging.run(sender, lambda _check: read_texts(texts_of(message)))
    if data is not None:
        async with in_time():
            (await request.standing()).check_paints()
        await _open(request, MessageRecipe(data=data, private=private))
        return
    files = files_of(message)
    if not files:
        raise UserMistake("recipe_none")
    services.pace.admit(sender, files=1)
    await _open_when_read(request, files, private=private)


async def _open_when_read(request: Request, files: Sequence[MessageFile], *, private: bool) -> None:
    """Open the form; if the files take too long to read, offer a button that opens it."""
    reading = asyncio.create_task(_read(request, files, private=private), name="recipe of a message")
    try:
        done, _ = await asyncio.wait({reading}, timeout=FORM_SECONDS)
        if not done:
            await acknowledge(request, private=True)
        offered = await reading
    finally:
        reading.cancel()
    if done:
        await _open(request, offered)
        return
    key = request.services.kept_recipes.keep(offered, user_id=request.person.id)
    button = ButtonContent(
        label=request.texts.gettext("Open the form"), custom_id=f"{READ}:{key}", primary=True
    )
    said = request.texts.gettext("The recipe in {file} is read.", file=shown(offered.file, SHOWN_NAME))
    content = MessageContent(heading=said, rows=((button,),), tone=Tone.DONE)
    await request.edit(view=layout(content))


async def _read(request: Request, files: Sequence[MessageFile], *, private: bool) -> MessageRecipe:
    """Return the recipe of the first file that has one; raises UserMistake where none has."""
    services, sender = request.services, request.sender
    errors: list[Exception] = []
    try:
        (await request.standing()).check_paints()
    except UserMistake:
        services.pace.give_back(sender, files=1)
        raise
    async with services.attachments.turn(sender) as turn:
        for file in files[:MOST_FILES]:
            name = file_name(file.name)
            address = services.attachments.reachable(file.addresses)
            if address is None:
                continue
            try:
                services.attachments.check(file.size or 0, what=f"“{name}”")
                with of_message():
                    found = await services.attachments.fetch(address, what=f"“{name}”", turn=turn)
                data = await services.fitting.run(read_file, file.kind, found)
                return MessageRecipe(data=data, file=name, private=private)
            except (InvalidRequest, UserMistake) as error:
                errors.append(error)
    more = UserMistake("recipe_none_in_files", count=MOST_FILES)
    raise telling(errors, otherwise=more if len(files) > MOST_FILES else UserMistake("recipe_none"))


async def open_read(request: Request, kept: str) -> None:
    """Open the form of a recipe that was read before; raises UserMistake where it is no longer known."""
    await _open(request, request.services.kept_recipes.find(kept, user_id=request.person.id))


async def _open(request: Request, offered: MessageRecipe) -> None:
    texts, names = request.texts, request.names
    fitted = fit(offered.data, request.services.offers)
    said = about(fitted, offered.file, texts, names)
    fields = painted_fields(
        request,
        prompt=clean(fitted.options.get("prompt", "")),
        negative_prompt=clean(fitted.options.get("negative_prompt", "")),
        values=recipe_settings(fitted.options, request.services.offers),
        parts=MAX_PARTS - 1 if said else MAX_PARTS,
    )
    title = names.pgettext("name", NAME)
    await open_form(request, recipe_form(title, *fields, above=said, private=offered.private))


def about(fitted: Fitted, file: str, texts: Texts, names: Texts) -> str:
    """Return the lines above the form: the file that was read, and item by item what is different here."""
    lines = []
    if file:
        lines.append(texts.gettext("Read from {file}.", file=shown(file, SHOWN_NAME)))
    if fitted.differences:
        heading = texts.gettext("What differs here from this recipe:")
        menu = names.pgettext("name", PAINT_FROM)
        image = texts.gettext(
            "It started from another picture, which a recipe does not include: use “{menu}” to start from "
            "one.",
            menu=menu,
        )
        lines += difference_lines(fitted.differences, names, texts, heading=heading, image=image)
    return "\n".join(lines)


async def paint_recipe(request: Request, visibility: str, **filled: str) -> None:
    """Queue a job of the words and settings in the form."""
    origin = await accept(request, private=visibility == ALONE)
    await announce(request, await enqueue(request, await recipe_of(request, None, **filled), origin))


CONTROLS = (
    Button(template=rf"{READ}:(?P<kept>[0-9a-f]+)", act=open_read),
    Form(template=rf"{RECIPE}:(?P<visibility>{ALL}|{ALONE})", act=paint_recipe),
)
