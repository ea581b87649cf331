"""“Made by AI?” in the menu of a message: what the marks of its pictures say, for every member, never who."""

from __future__ import annotations

from collections.abc import Collection

import discord
from discord.app_commands import locale_str

from bot.domain.errors import UserMistake
from bot.domain.hashes import hash_of_file, hashes_of_tiles
from bot.files.artifacts import name_of_png
from bot.front.answers.answers import acknowledge, page, page_lines
from bot.front.gateway.command_tree import MessageMenu, make_menu
from bot.front.services.request import Request, patiently
from bot.front.uploads.attachments import Turn
from bot.front.uploads.messages import MessagePicture, files_of, of_message, pictures_among, result_of
from bot.provenance.inspection import Answer, Kind, Mark, answer_of
from bot.provenance.payload import digits_of
from bot.texts.catalogue import Texts
from bot.texts.markup import shown
from sdjax_engine.errors import InvalidRequest

NAME = "Made by AI?"
MOST_PICTURES = 4  # of one message
SHOWN_NAME = 60
OWN, WATERMARK, KNOWN = (Mark(kind=kind, says=Answer.YES) for kind in (Kind.OWN, Kind.WATERMARK, Kind.KNOWN))


def made_by_ai_menu() -> MessageMenu:
    """The command."""
    return make_menu(name=locale_str(NAME), run=made_by_ai)


async def made_by_ai(request: Request, message: discord.Message) -> None:
    """Say of each picture of a message whether AI made it, to the person alone."""
    services = request.services
    texts = request.texts
    pictures = pictures_among(files_of(message), services.attachments.reachable, texts)[:MOST_PICTURES]
    if not pictures:
        raise UserMistake("whose_no_picture")
    own = result_of(message, request.bot_id) is not None
    services.pace.admit(request.sender, files=0 if own else len(pictures))
    await acknowledge(request, private=True)
    if own:
        lines = [line_of(each.name, [OWN], texts) for each in pictures]
    else:
        async with services.attachments.turn(request.sender) as turn:
            lines = [await _line(request, each, turn) for each in pictures]
    lines.append(
        texts.gettext("Marks can be removed, so a picture without any may be AI-generated all the same.")
    )
    heading = texts.gettext("Made by AI?")
    await request.edit(view=page(page_lines([f"### {heading}", *lines], texts)))


async def _line(request: Request, picture: MessagePicture, turn: Turn) -> str:
    """Return the line about a picture, or the sentence that says why it cannot be looked at."""
    services, texts = request.services, request.texts
    try:
        with of_message():
            if picture.size is not None:
                services.attachments.check(picture.size, what=picture.what)
            found = await services.attachments.inspected(picture.address, what=picture.what, turn=turn)
    except (InvalidRequest, UserMistake) as error:
        return texts.line(texts.mistake(error, tell=lambda detail: shown(str(detail), SHOWN_NAME)), mark="- ")
    marks, digest, png = found
    if await _is_own(request, digest):
        marks = [*marks, OWN]
    elif await _has_watermark(request, png):
        marks = [*marks, WATERMARK]
    elif await _is_known(request, png):
        marks = [*marks, KNOWN]
    return line_of(picture.name, marks, texts)


async def _is_own(request: Request, digest: str) -> bool:
    """Return whether a file is one that the bot painted, for anyone; `digest` as `digest_of` returns it."""
    is_result = request.services.store.known.is_result
    return await patiently(is_result, name_of_png(digest))


async def _has_watermark(request: Request, png: bytes) -> bool:
    """Return whether a cleaned picture has the watermark of one that the bot painted, for anyone."""
    services = request.services
    number = await services.hashing.run(services.signing.number_in, png)
    if number is None:
        return False
    return await patiently(services.store.known.begins_with, digits_of(number))


async def _is_known(request: Request, png: bytes) -> bool:
    """Return whether the bot painted a cleaned picture, or a tile of it if it is a grid, for this server."""
    services = request.services
    whole = [await services.hashing.run(hash_of_file, png)]
    for hashes in (whole, *await services.hashing.run(hashes_of_tiles, png)):
        for number in hashes:
            painted = services.store.known.painted
            if await patiently(painted, request.guild_id, number):
                return True
    return False


def line_of(name: str, marks: Collection[Mark], texts: Texts) -> str:
    """Return the line about a picture: the answer, and the marks that give it."""
    answer = answer_of(marks)
    said = {
        Answer.YES: texts.gettext("**Yes**"),
        Answer.NO: texts.gettext("**No**, says its maker, whom the bot does not know"),
        Answer.UNKNOWN: texts.gettext("**Not known**"),
    }[answer]
    reasons = [_reason(mark.kind, texts) for mark in marks if mark.says is answer and answer is Answer.YES]
    parts = [shown(name, SHOWN_NAME), said, *dict.fromkeys(reasons)]
    return texts.line(texts.joined(parts), mark="- ")


def _reason(kind: Kind, texts: Texts) -> str:
    return {
        Kind.MANIFEST: texts.gettext("signed manifest"),
        Kind.BROKEN_MANIFEST: texts.gettext("manifest, whose signature no longer fits the file"),
        Kind.XMP: texts.gettext("metadata (XMP)"),
        Kind.AIGC: texts.gettext("metadata (AIGC)"),
        Kind.SETTINGS: texts.gettext("settings of a picture generator"),
        Kind.OWN: texts.gettext("painted by this bot"),
        Kind.WATERMARK: texts.gettext("invisible watermark of this bot"),
        Kind.KNOWN: texts.gettext("painted by this bot, or almost identical"),
    }[kind]
