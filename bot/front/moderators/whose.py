"""`/whose` and “Whose picture is this?”: which member of this server asked for a picture, for moderators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import discord
from discord.app_commands import Range, locale_str

from bot.delivery.content import ROW, ButtonContent, MessageContent, Tone
from bot.delivery.discord_requests import layout
from bot.delivery.lineage import message_address
from bot.domain.errors import UserMistake
from bot.domain.hashes import LIKELY_DISTANCE, hash_of_file, hashes_of_tiles, is_flat, name_of
from bot.front.answers.answers import acknowledge, page_lines
from bot.front.answers.permissions import moderated_server
from bot.front.gateway.command_tree import (
    Command,
    MessageMenu,
    Option,
    for_moderators,
    make_command,
    make_menu,
)
from bot.front.moderators.moderate import who
from bot.front.requests.given_pictures import clean_sent
from bot.front.services.request import Request, patiently
from bot.front.uploads.messages import (
    PICTURES,
    SentFile,
    files_of,
    of_message,
    pictures_among,
    result_of,
    sent_file,
)
from bot.store.moderation.known import Match
from bot.texts.catalogue import Moment, Texts

NAME = "Whose picture is this?"
MOST_MATCHES = 5  # of one picture
MOST_PICTURES = 4  # of one message
MOST_FOUND = 12  # with a button each
MAX_LINK = 200
LINK = re.compile(r"https://(?:[a-z]+\.)?discord(?:app)?\.com/channels/([0-9]+)/([0-9]+)/([0-9]+)/?")
BLOCK = "block_picture"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A picture by its hash, and the pictures of the server that are like it.

    With `certain` the bot itself has posted the picture in the message.
    """

    hash: int
    matches: tuple[Match, ...]
    certain: bool = False


def whose_command() -> Command:
    """The command."""
    picture = Option(
        name="picture",
        description=locale_str("The picture, as a file."),
        kind=discord.Attachment,
        file_types=PICTURES,
    )
    message = Option(
        name="message",
        description=locale_str("Or the link of a message of this server."),
        kind=Range[str, 1, MAX_LINK],
    )
    return for_moderators(
        make_command(
            name="whose",
            description=locale_str("For moderators: which member asked for a picture."),
            run=whose,
            options=[picture, message],
        )
    )


def whose_menu() -> MessageMenu:
    """The command in the menu of a message."""
    return for_moderators(make_menu(name=locale_str(NAME), run=whose_message))


async def whose(request: Request, *, picture: discord.Attachment | None = None, message: str = "") -> None:
    """Say whose the picture is, to the moderator alone."""
    guild_id = moderated_server(request)
    request.services.pace.admit(request.sender, files=0 if picture is None else 1)
    if picture is not None:
        request.services.attachments.check(picture.size, what=sent_file(picture).what)
    await acknowledge(request, private=True)
    if picture is not None:
        await _answer(request, await _look_up(request, guild_id, [sent_file(picture)]))
    elif message:
        await _answer(request, await _of_message(request, guild_id, await _linked(request, message)))
    else:
        raise UserMistake("whose_nothing")


async def whose_message(request: Request, message: discord.Message) -> None:
    """Say whose the pictures of a message are, to the moderator alone."""
    guild_id = moderated_server(request)
    request.services.pace.admit(request.sender, files=1)
    await acknowledge(request, private=True)
    await _answer(request, await _of_message(request, guild_id, message))


async def _linked(request: Request, link: str) -> discord.Message:
    """Return the message of a link, if the moderator may read it.

    Raises UserMistake `whose_link`, and `whose_hidden` where Discord shows the bot only its own messages.
    """
    found = LINK.fullmatch(link.strip())
    refused = UserMistake("whose_link", link=link)
    if found is None or int(found[1]) != request.guild_id or request.interaction.guild is None:
        raise refused
    channel = request.interaction.guild.get_channel_or_thread(int(found[2]))
    if not isinstance(channel, discord.TextChannel | discord.Thread | discord.VoiceChannel):
        raise refused
    if not isinstance(request.person, discord.Member):
        raise refused
    rights = channel.permissions_for(request.person)
    if not (rights.view_channel and rights.read_message_history):
        raise refused
    if isinstance(channel, discord.Thread) and channel.is_private() and not rights.manage_threads:
        raise refused
    try:
        message = await channel.fetch_message(int(found[3]))
    except (discord.NotFound, discord.Forbidden) as error:
        raise refused from error
    if message.author.id != request.bot_id and not files_of(message):
        # Without the privileged intent Discord leaves out what is in messages of others.
        names = request.names
        raise UserMistake("whose_hidden", menu=names.pgettext("name", NAME))
    return message


async def _of_message(request: Request, guild_id: int, message: discord.Message) -> list[Found]:
    """Return the matches of a message's pictures: from the rows of a result of this bot, else by hashes."""
    known = request.services.store.known
    job_id = result_of(message, request.bot_id)
    if job_id is not None:
        matches = await patiently(known.of_job, guild_id, job_id)
        if matches:
            return [Found(hash=each.hash, matches=(each,), certain=True) for each in matches]
    pictures = pictures_among(files_of(message), request.services.attachments.reachable, request.texts)[
        :MOST_PICTURES
    ]
    if not pictures:
        raise UserMistake("whose_no_picture")
    with of_message():
        sent = [each.sent for each in pictures]
        return await _look_up(request, guild_id, sent)


async def _look_up(request: Request, guild_id: int, files: Iterable[SentFile]) -> list[Found]:
    """Return what is known of each file, or of its tiles where it is a grid of known pictures."""
    hashing = request.services.hashing
    found = []
    for file in files:
        png = await clean_sent(request, file)
        whole = await _found(request, guild_id, await hashing.run(hash_of_file, png), MOST_MATCHES)
        tiles: list[Found] = []
        if not whole.matches:
            for grid in await hashing.run(hashes_of_tiles, png):
                known = [await _found(request, guild_id, number, 1) for number in grid]
                tiles = max(tiles, [tile for tile in known if tile.matches], key=len)
        found += tiles or [whole]
    return found[:MOST_FOUND]


async def _found(request: Request, guild_id: int, number: int, limit: int) -> Found:
    search = request.services.store.known.whose
    matches = await patiently(search, guild_id, number, limit=limit)
    return Found(hash=number, matches=tuple(matches))


async def _answer(request: Request, found: Sequence[Found]) -> None:
    texts = request.texts
    heading = texts.gettext("Whose picture is this?")
    text = page_lines([f"### {heading}", *lines_of(found, texts)], texts)
    buttons = tuple(_buttons(found, texts))
    rows = tuple(buttons[at : at + ROW] for at in range(0, len(buttons), ROW))
    content = MessageContent(heading=text, rows=rows, tone=Tone.WAITING)
    await request.edit(view=layout(content))


def lines_of(found: Sequence[Found], texts: Texts) -> Iterator[str]:
    """Yield a line for each match of a picture, the nearest first, and how certain it is."""
    for number, each in enumerate(found, start=1):
        if len(found) > 1:
            yield texts.gettext("**Picture {number}**", number=number)
        if not each.matches:
            yield texts.gettext("No kept request of this server has a picture like this.")
        for match in each.matches:
            yield texts.line(texts.joined(_parts(match, texts, certain=each.certain)), mark="- ")
    if any(_is_uncertain(match) for each in found if not each.certain for match in each.matches):
        yield texts.gettext(
            "Where it says “not certain”, it may be another picture that looks like it: compare the two "
            "before you act."
        )


def _is_uncertain(match: Match) -> bool:
    """Return whether another picture could look so much alike: plain pictures all have similar hashes."""
    return match.distance > LIKELY_DISTANCE or is_flat(match.hash)


def _certainty(match: Match, texts: Texts, *, certain: bool) -> str:
    if certain or (match.distance == 0 and not is_flat(match.hash)):
        return texts.gettext("certain")
    return texts.gettext("not certain") if _is_uncertain(match) else texts.gettext("very likely")


def _parts(match: Match, texts: Texts, *, certain: bool) -> Iterator[str]:
    member = who(match.job.origin.user_id, texts)
    if match.is_given:
        yield texts.gettext("{member} sent it with a request", member=member)
    else:
        yield texts.gettext(
            "{member} asked for it, as picture {number}", member=member, number=match.index + 1
        )
    yield str(Moment(match.job.created_at))
    yield _certainty(match, texts, certain=certain)
    if address := message_address(match.job):
        words = texts.gettext("the message")
        yield f"[{words}]({address})"


def _buttons(found: Sequence[Found], texts: Texts) -> Iterator[ButtonContent]:
    hashes = [each.hash for each in found]
    for number, each in enumerate(found, start=1):
        if each.hash in hashes[: number - 1]:
            continue  # the same picture again: Discord refuses two buttons of one id
        label = texts.gettext("Block this picture")
        if len(found) > 1:
            label = texts.gettext("Block picture {number}", number=number)
        yield ButtonContent(label=label, custom_id=f"{BLOCK}:{name_of(each.hash)}")
