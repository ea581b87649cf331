"""`/known`: pictures that a server blocks, as results and as pictures to start from."""

from __future__ import annotations

from collections.abc import Iterator

import discord
from discord.app_commands import Choice, Range, locale_str

from bot.errors import StoreUnavailable, UserMistake
from bot.front.answers import page, page_lines
from bot.front.command_tree import Group, Option, for_moderators, make_command, make_group
from bot.front.commands.moderate import MOST_REASON, who
from bot.front.first_answers import acknowledge
from bot.front.known_pictures import hash_sent
from bot.front.offered_pictures import sent_file
from bot.front.options import MAX_CHOICE, MAX_CHOICES
from bot.front.permissions import acting, moderated_server
from bot.front.requests import PATIENCE_SECONDS
from bot.front.services import Interaction, sender_of, services_of
from bot.picture_hashes import name_of, named
from bot.retries import while_unavailable
from bot.store.known import Blocked
from bot.texts import Moment, Texts, shown

MOST_SHOWN = 60


def known_group() -> Group:
    """The command and its subcommands."""
    picture = Option(
        name="picture",
        description=locale_str("The picture, as a file."),
        kind=discord.Attachment,
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


async def block_sent(interaction: Interaction, *, picture: discord.Attachment, reason: str = "") -> None:
    """Block a picture that the moderator sends."""
    moderated_server(interaction)
    services = services_of(interaction)
    services.pace.admit(sender_of(interaction), files=1)
    sent = sent_file(picture)
    services.attachments.check(picture.size, what=sent.what)
    await acknowledge(interaction, private=True)
    number = await hash_sent(interaction, sent)
    await _block(interaction, number, reason)


async def block_found(interaction: Interaction, name: str) -> None:
    """Block the picture with this name, which `/whose` has shown."""
    moderated_server(interaction)
    number = named(name)
    if number is None:
        raise UserMistake("known_unknown", name=name)
    await acknowledge(interaction, private=True)
    await _block(interaction, number, "")


async def _block(interaction: Interaction, number: int, reason: str) -> None:
    services = services_of(interaction)
    by = acting(interaction, reason)
    if not await while_unavailable(PATIENCE_SECONDS, services.store.known.block, number, by):
        raise UserMistake("known_twice")
    said = services.texts(interaction).gettext(
        "Blocked as {name}: this picture and those almost identical to it are refused in this server, "
        "as results and to start from.",
        name=name_of(number),
    )
    await interaction.edit_original_response(content=said)


async def show_blocked(interaction: Interaction) -> None:
    """Show what the server blocks, the newest first, to the moderator alone."""
    guild_id = moderated_server(interaction)
    await acknowledge(interaction, private=True)
    services = services_of(interaction)
    blocked = await while_unavailable(PATIENCE_SECONDS, services.store.known.blocked, guild_id)
    texts = services.texts(interaction)
    lines = [texts.line(texts.joined(_parts(each, texts)), mark="- ") for each in blocked]
    lines = lines or [texts.gettext("No picture is blocked here.")]
    await interaction.edit_original_response(view=page(page_lines(lines, texts)))


def _parts(blocked: Blocked, texts: Texts) -> Iterator[str]:
    yield f"`{name_of(blocked.hash)}`"
    yield texts.gettext("by {member}", member=who(blocked.by, texts))
    yield str(Moment(blocked.at))
    if blocked.reason:
        yield shown(blocked.reason, MOST_REASON)


async def remove_blocked(interaction: Interaction, *, name: str, reason: str = "") -> None:
    """End the block of the picture with this name."""
    moderated_server(interaction)
    services, number = services_of(interaction), named(name)
    await acknowledge(interaction, private=True)
    by = acting(interaction, reason)
    if number is None or not await while_unavailable(
        PATIENCE_SECONDS, services.store.known.unblock, number, by
    ):
        raise UserMistake("known_unknown", name=name)
    said = services.texts(interaction).gettext(
        "The picture {name} is no longer blocked.", name=name_of(number)
    )
    await interaction.edit_original_response(content=said)


async def suggest_blocked(interaction: Interaction, typed: str) -> list[Choice[str]]:
    """Suggest the blocked pictures of the server to moderators, by name or reason."""
    try:
        guild_id = moderated_server(interaction)
        blocked = await services_of(interaction).store.known.blocked(guild_id)
    except (StoreUnavailable, UserMistake):
        return []
    wanted = typed.casefold().strip()
    found = [(name_of(each.hash), each.reason) for each in blocked]
    return [
        Choice(name=f"{name} {reason}"[:MAX_CHOICE].strip(), value=name)
        for name, reason in found
        if wanted in f"{name} {reason}".casefold()
    ][:MAX_CHOICES]
