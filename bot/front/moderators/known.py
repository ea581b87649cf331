"""`/known`: pictures that a server blocks, as results and as pictures to start from."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Sequence

import discord
from discord.app_commands import Choice, Range, locale_str

from bot.delivery.content import ButtonContent, MessageContent, PictureContent, Tone
from bot.delivery.discord_requests import layout
from bot.domain.errors import StoreUnavailable, UserMistake
from bot.domain.hashes import DIGITS, name_of, named
from bot.domain.holds import MOST_REASON
from bot.front.answers.answers import acknowledge, open_form, page_lines
from bot.front.answers.controls import Button, Form
from bot.front.answers.modals import modal, reason_field
from bot.front.answers.permissions import acting, moderated_server
from bot.front.gateway.command_tree import Group, Option, for_moderators, make_command, make_group
from bot.front.moderators.moderate import who
from bot.front.moderators.whose import BLOCK
from bot.front.recipes.options import MAX_CHOICE, MAX_CHOICES
from bot.front.requests.given_pictures import hash_sent
from bot.front.results.contact_sheet import contact_sheet
from bot.front.results.shown_again import tile_of
from bot.front.services.request import Request, Services, patiently
from bot.front.uploads.messages import PICTURES, sent_file
from bot.store.rows.hashes import Blocked
from bot.texts.catalogue import Moment, Texts
from bot.texts.markup import shown, tidy

MOST_TILES = 16  # of the newest blocked pictures
SHEET = "SPOILER_blocked.jpg"
UNBLOCK = "unblock_picture"


def known_group() -> Group:
    """The command and its subcommands."""
    picture = Option(
        name="picture",
        description=locale_str("The picture, as a file."),
        kind=discord.Attachment,
        file_types=PICTURES,
        required=True,
    )
    reason = Option(
        name="reason",
        description=locale_str("Why; it is kept in the log."),
        kind=Range[str, 1, MOST_REASON],
    )
    name = Option(
        name="name",
        description=locale_str("The name of a blocked picture."),
        kind=Range[str, 1, MAX_CHOICE],
        required=True,
        autocomplete=suggest_blocked,
    )
    commands = [
        make_command(
            name="block",
            description=locale_str("Refuse a picture and all that are almost identical to it."),
            run=block_sent,
            options=[picture, reason],
        ),
        make_command(
            name="show", description=locale_str("Show the pictures that are blocked here."), run=show_blocked
        ),
        make_command(
            name="remove",
            description=locale_str("Unblock a picture."),
            run=remove_blocked,
            options=[name, reason],
        ),
    ]
    described = locale_str("Pictures that are blocked here.")
    return for_moderators(make_group(name="known", description=described, commands=commands))


async def block_sent(request: Request, *, picture: discord.Attachment, reason: str = "") -> None:
    """Block a picture that the moderator sends."""
    moderated_server(request)
    request.services.pace.admit(request.sender, files=1)
    sent = sent_file(picture)
    request.services.attachments.check(picture.size, what=sent.what)
    await acknowledge(request, private=True)
    number = await hash_sent(request, sent)
    await _block(request, number, reason)


async def ask_block(request: Request, name: str) -> None:
    """Ask for the reason to block the picture with this name, which `/whose` has found."""
    moderated_server(request)
    texts = request.texts
    about = texts.gettext("It is kept in the log. The same picture in other colours is refused too.")
    why = reason_field(texts, about)
    await open_form(request, modal(texts.gettext("Block this picture?"), f"{BLOCK}:{name}", why))


async def block_found(request: Request, name: str, *, reason: str = "") -> None:
    """Block the picture with this name, as the form says; the right is checked again."""
    moderated_server(request)
    number = named(name)
    if number is None:
        raise UserMistake("known_unknown", name=name)
    await acknowledge(request, private=True)
    await _block(request, number, tidy(reason)[:MOST_REASON])


async def _block(request: Request, number: int, reason: str) -> None:
    by = acting(request, reason)
    if not await patiently(request.services.store.known.block, number, by):
        raise UserMistake("known_twice")
    said = request.texts.gettext(
        "Blocked as {name}: this picture and those almost identical to it are refused in this server, "
        "as results and to start from.",
        name=name_of(number),
    )
    undo = ButtonContent(label=request.texts.gettext("Undo"), custom_id=f"{UNBLOCK}:{name_of(number)}")
    content = MessageContent(heading=said, rows=((undo,),), tone=Tone.WAITING)
    await request.edit(view=layout(content))


async def show_blocked(request: Request) -> None:
    """Show what the server blocks, the newest first, to the moderator alone."""
    guild_id = moderated_server(request)
    await acknowledge(request, private=True)
    services = request.services
    blocked = await patiently(services.store.known.blocked, guild_id)
    texts = request.texts
    lines = [
        texts.line(texts.joined(_parts(each, texts)), mark=f"{number}\\. ")
        for number, each in enumerate(blocked, start=1)
    ]
    lines = lines or [texts.gettext("No picture is blocked here.")]
    files = await _kept(services, guild_id, [each.hash for each in blocked[:MOST_TILES]])
    sheets: list[discord.File] = []
    pictures: tuple[PictureContent, ...] = ()
    if any(files):
        made = await services.fitting.run(contact_sheet, files, services.signing)
        sheets = [discord.File(io.BytesIO(made), SHEET)]
        alt = texts.gettext("The blocked pictures that are still kept, with their numbers in the list")
        pictures = (PictureContent(artifacts=(), stem=SHEET, alt=alt, spoiler=True),)
    content = MessageContent(heading=page_lines(lines, texts), pictures=pictures, tone=Tone.WAITING)
    view = layout(content, file_names=[sheet.filename for sheet in sheets])
    await request.edit(view=view, attachments=sheets)


async def _kept(services: Services, guild_id: int, hashes: Sequence[int]) -> list[bytes | None]:
    """Return for each hash the file of a picture of the server that is still kept; None without one."""
    names = await patiently(services.store.known.kept, guild_id, hashes)
    found = (names.get(number) for number in hashes)
    return await asyncio.gather(*(tile_of(services, name) for name in found))


def _parts(blocked: Blocked, texts: Texts) -> Iterator[str]:
    yield f"`{name_of(blocked.hash)}`"
    yield texts.gettext("by {member}", member=who(blocked.by, texts))
    yield str(Moment(blocked.at))
    if blocked.reason:
        yield shown(blocked.reason, MOST_REASON)


async def remove_blocked(request: Request, *, name: str, reason: str = "") -> None:
    """End the block of the picture with this name."""
    moderated_server(request)
    services, number = request.services, named(name)
    await acknowledge(request, private=True)
    by = acting(request, reason)
    if number is None or not await patiently(services.store.known.unblock, number, by):
        raise UserMistake("known_unknown", name=name)
    said = request.texts.gettext("The picture {name} is no longer blocked.", name=name_of(number))
    await request.edit(content=said)


async def unblock_found(request: Request, name: str) -> None:
    """End the block of the picture with this name, without a reason."""
    await remove_blocked(request, name=name)


async def suggest_blocked(request: Request, typed: str) -> list[Choice[str]]:
    """Suggest the blocked pictures of the server to moderators, by name or reason."""
    try:
        guild_id = moderated_server(request)
        blocked = await request.services.store.known.blocked(guild_id)
    except (StoreUnavailable, UserMistake):
        return []
    wanted = typed.casefold().strip()
    found = [(name_of(each.hash), each.reason) for each in blocked]
    return [
        Choice(name=f"{name} {reason}"[:MAX_CHOICE].strip(), value=name)
        for name, reason in found
        if wanted in f"{name} {reason}".casefold()
    ][:MAX_CHOICES]


_NAME = rf"(?P<name>[0-9a-f]{{{DIGITS}}})"
CONTROLS = (
    Button(template=f"{BLOCK}:{_NAME}", act=ask_block),
    Button(template=f"{UNBLOCK}:{_NAME}", act=unblock_found),
    Form(template=f"{BLOCK}:{_NAME}", act=block_found),
)
