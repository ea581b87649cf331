"""`/moderate`: blocks of members, pauses of painting, and the deletion of a member's recent requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import discord
from discord.app_commands import Range, locale_str

from bot.domain.errors import StoreUnavailable, UnknownJob, UserMistake
from bot.domain.holds import MOST_REASON
from bot.domain.jobs import Job
from bot.domain.time_units import HOUR_SECONDS
from bot.front.answers.answers import (
    FORM_READ_SECONDS,
    acknowledge,
    open_form,
    page,
    page_lines,
    tell_begun,
    tell_end,
)
from bot.front.answers.controls import Form
from bot.front.answers.modals import modal
from bot.front.answers.permissions import acting, check_blockable, moderated_server
from bot.front.gateway.command_tree import Command, Group, Option, for_moderators, make_command, make_group
from bot.front.gateway.translator import command_name
from bot.front.results.removal import remove_copies, remove_message
from bot.front.services.request import Request, patiently
from bot.store.rows.audit import OPERATOR
from bot.store.rows.restrictions import Kind, Restriction, Scope
from bot.texts.catalogue import Moment, Texts
from bot.texts.markup import shown

MOST_BLOCK_HOURS = 8760
CHANNEL, SERVER = "channel", "server"
MOST_HOURS = 168
JOBS_AT_ONCE = 25
SHOWN_MESSAGES = 10
FORM = "clear"


def moderate_group() -> Group:
    """The command and its subcommands."""
    return for_moderators(
        make_group(
            name="moderate",
            description=locale_str(
                "For moderators: block members, pause painting, delete a member's requests."
            ),
            commands=[*_about_members(), *_about_places(), _show_command()],
        )
    )


def _about_members() -> list[Command]:
    member = Option(name="member", description=locale_str("Which member."), kind=discord.User, required=True)
    block_hours = _hours(
        locale_str("How many hours the block lasts. Default: until a moderator removes it."),
        most=MOST_BLOCK_HOURS,
    )
    clear_hours = _hours(locale_str("How many hours to go back. Default: 1."), most=MOST_HOURS)
    return [
        make_command(
            name="block",
            description=locale_str("Block a member: all their requests are refused."),
            run=block,
            options=[member, block_hours, _reason(locale_str("Why; the member reads it."))],
        ),
        make_command(
            name="unblock",
            description=locale_str("Unblock a member: their requests are accepted again."),
            run=unblock,
            options=[member, _reason(locale_str("Why; it is kept in the log."))],
        ),
        make_command(
            name="clear",
            description=locale_str("Delete what a member asked for lately, pictures and messages."),
            run=ask_clear,
            options=[member, clear_hours],
        ),
    ]


def _about_places() -> list[Command]:
    where = Option(
        name="where",
        description=locale_str("This channel or the whole server. Default: this channel."),
        kind=str,
        choices=[
            (locale_str("This channel", words=True), CHANNEL),
            (locale_str("The whole server", words=True), SERVER),
        ],
    )
    word = Option(
        name="word",
        description=locale_str("The text that people with waiting requests read."),
        kind=Range[str, 1, MOST_REASON],
    )
    return [
        make_command(
            name="pause",
            description=locale_str(
                "Pause painting: requests wait; pictures that are being painted are finished."
            ),
            run=pause,
            options=[where, word],
        ),
        make_command(
            name="resume",
            description=locale_str("Resume painting after a pause."),
            run=resume,
            options=[where],
        ),
    ]


def _show_command() -> Command:
    return make_command(
        name="show", description=locale_str("Who is blocked and where painting is paused."), run=show
    )


def _hours(description: locale_str, *, most: int) -> Option:
    return Option(name="hours", description=description, kind=Range[int, 1, most])


def _reason(description: locale_str) -> Option:
    return Option(name="reason", description=description, kind=Range[str, 1, MOST_REASON])


async def block(
    request: Request, *, member: discord.User, hours: int | None = None, reason: str = ""
) -> None:
    """Block a member in this server, for some hours or for good."""
    guild_id = moderated_server(request)
    check_blockable(request, member)
    services = request.services
    await acknowledge(request, private=True)
    scope = Scope(guild_id=guild_id, user_id=member.id)
    moderation = services.store.moderation
    there = await patiently(moderation.in_force, guild_id)
    until = None if hours is None else services.store.clock() + hours * HOUR_SECONDS
    await patiently(moderation.block, scope, acting(request, reason), until=until)
    texts = request.texts
    said = [
        texts.gettext("{member} can no longer ask for pictures in this server.", member=f"<@{member.id}>")
    ]
    if until is None:
        said.append(texts.gettext("The block lasts until a moderator removes it."))
    else:
        said.append(texts.gettext("This ends {until}.", until=Moment(until)))
    said += [_replaced(each, texts) for each in there if each.kind is Kind.BLOCK and each.scope == scope]
    waiting = await services.store.jobs.count_active(user_id=member.id, guild_id=guild_id)
    if waiting:
        said.append(
            texts.ngettext(
                "{count} request of theirs will still be painted: **{clear}** deletes it.",
                "{count} requests of theirs will still be painted: **{clear}** deletes them.",
                waiting,
                clear=command_name(request.interaction.locale, "moderate", "clear"),
            )
        )
    await request.edit(content=" ".join(said))


def _replaced(block: Restriction, texts: Texts) -> str:
    if block.until is None:
        return texts.gettext("It replaces an earlier block, which had no end.")
    return texts.gettext(
        "It replaces an earlier block, which would have ended {until}.", until=Moment(block.until)
    )


async def unblock(request: Request, *, member: discord.User, reason: str = "") -> None:
    """End the block of a member in this server."""
    scope = Scope(guild_id=moderated_server(request), user_id=member.id)
    await acknowledge(request, private=True)
    lifted = await patiently(request.services.store.moderation.unblock, scope, acting(request, reason))
    if lifted is None:
        raise UserMistake("not_blocked", command=command_name(request.interaction.locale, "moderate", "show"))
    said = request.texts.gettext(
        "{member} can ask for pictures in this server again.", member=f"<@{member.id}>"
    )
    await request.edit(content=said)


async def pause(request: Request, *, where: str = CHANNEL, word: str = "") -> None:
    """Pause painting in this channel or server, and announce it in the channel."""
    scope = _scope(request, where)
    await acknowledge(request, private=False)
    await patiently(request.services.store.moderation.pause, scope, acting(request, word))
    texts = Texts.for_locale(await request.locale_for_all())
    told = [_paused(scope, word, texts), texts.gettext("Waiting requests are painted once the pause ends.")]
    await request.edit(view=page("\n".join(told)))


async def resume(request: Request, *, where: str = CHANNEL) -> None:
    """End a pause, and announce it in the channel."""
    scope = _scope(request, where)
    await acknowledge(request, private=False)
    ended = await patiently(request.services.store.moderation.resume, scope, acting(request))
    if ended is None:
        raise UserMistake("not_paused", command=command_name(request.interaction.locale, "moderate", "show"))
    texts = Texts.for_locale(await request.locale_for_all())
    said = (
        texts.gettext("Painting has resumed in this channel.")
        if scope.channel_id
        else texts.gettext("Painting has resumed in this server.")
    )
    await request.edit(view=page(said))


def _scope(request: Request, where: str) -> Scope:
    """Return the channel or the server of an interaction; raises UserMistake without the right."""
    guild_id = moderated_server(request, channel=where == CHANNEL)
    if where == CHANNEL and request.channel_id is not None:
        return Scope(guild_id=guild_id, channel_id=request.channel_id)
    return Scope(guild_id=guild_id)


def _paused(scope: Scope, word: str, texts: Texts) -> str:
    word = shown(word, MOST_REASON)
    if scope.channel_id:
        if word:
            return texts.gettext("Painting is paused here: {word}", word=word)
        return texts.gettext("Painting is paused here.")
    if word:
        return texts.gettext("Painting is paused in the whole server: {word}", word=word)
    return texts.gettext("Painting is paused in the whole server.")


async def show(request: Request) -> None:
    """Show the blocks and pauses of this server, to the moderator alone."""
    guild_id = moderated_server(request)
    await acknowledge(request, private=True)
    found = await request.services.store.moderation.in_force(guild_id)
    await request.edit(view=page(page_lines(restriction_lines(found, request.texts), request.texts)))


def restriction_lines(restrictions: Iterable[Restriction], texts: Texts) -> list[str]:
    """Return a line for each block, then for each pause, with its end, its word and who made it."""
    found = list(restrictions)
    lines = []
    for kind, heading, none in (
        (Kind.BLOCK, texts.gettext("Blocked"), texts.gettext("Nobody is blocked in this server.")),
        (
            Kind.PAUSE,
            texts.gettext("Paused"),
            texts.gettext("Painting is not paused anywhere in this server."),
        ),
    ):
        lines.append(f"### {heading}")
        of_kind = [each for each in found if each.kind is kind]
        lines += [texts.line(texts.joined(_parts(each, texts)), mark="- ") for each in of_kind] or [none]
    return lines


def _parts(restriction: Restriction, texts: Texts) -> Iterator[str]:
    scope = restriction.scope
    if scope.user_id:
        yield f"<@{scope.user_id}>"
    else:
        yield f"<#{scope.channel_id}>" if scope.channel_id else texts.gettext("this server")
    if restriction.until is not None:
        yield texts.gettext("ends {until}", until=Moment(restriction.until))
    if restriction.reason:
        yield shown(restriction.reason, MOST_REASON)
    yield who(restriction.by, texts)


def who(user_id: int, texts: Texts) -> str:
    """Return a mention, or words for the operator and for an erased person."""
    if user_id == OPERATOR:
        return texts.gettext("the bot's owner")
    return f"<@{user_id}>" if user_id > 0 else texts.gettext("person no. {number}", number=-user_id)


async def ask_clear(request: Request, *, member: discord.User, hours: int = 1) -> None:
    """Open the form, which says how many requests are deleted; raises UserMistake where there is none."""
    guild_id = moderated_server(request)
    since = request.services.store.clock() - hours * HOUR_SECONDS
    try:
        async with asyncio.timeout(FORM_READ_SECONDS):
            count = await request.services.store.jobs.count_recent(member.id, guild_id=guild_id, since=since)
    except TimeoutError:
        raise StoreUnavailable("requests could not be counted in time for a form") from None
    if not count:
        raise UserMistake("nothing_to_clear")
    texts = request.texts
    said = [
        texts.ngettext(
            "This deletes {count} request of {member}: if it is waiting, it is cancelled, and its pictures "
            "and messages disappear for everyone. This cannot be undone.",
            "This deletes {count} requests of {member}: waiting ones are cancelled, and their pictures and "
            "messages disappear for everyone. This cannot be undone.",
            count,
            member=f"<@{member.id}>",
        ),
        texts.gettext("Asked for in the last {time}.", time=texts.duration(hours * HOUR_SECONDS)),
    ]
    question: discord.ui.TextDisplay[Any] = discord.ui.TextDisplay(" ".join(said))
    title = texts.gettext("Delete these requests?")
    await open_form(request, modal(title, f"{FORM}:{member.id}:{hours}", question))


async def clear(request: Request, member: str, hours: str) -> None:
    """Delete the requests, some at a time, until all are deleted or a stop begins.

    The messages are deleted first, so that a repeat completes an interrupted deletion. One transaction then
    deletes the results and writes the row of the log, with their number.
    """
    guild_id = moderated_server(request)
    services = request.services
    await acknowledge(request, private=True)
    texts, user_id = request.texts, int(member)
    await tell_begun(request, texts.gettext("These requests are being deleted."))
    since = services.store.clock() - int(hours) * HOUR_SECONDS
    deleted, stayed, ending = 0, list[str](), services.open_interactions.ending
    while not ending.is_set() and (
        found := await services.store.jobs.recent(user_id, guild_id=guild_id, since=since, limit=JOBS_AT_ONCE)
    ):
        jobs = []
        for job in found:
            if ending.is_set():
                break
            stayed += await _remove(request, job)
            jobs.append(job)
        count, names = await services.store.deliveries.clear(
            [job.id for job in jobs], by=acting(request), subject_id=user_id
        )
        await services.files.drop(names)
        deleted += count
        stayed += await _remove_new(request, jobs)
    said = texts.ngettext("{count} request was deleted.", "{count} requests were deleted.", deleted)
    if ending.is_set():
        said += " " + texts.gettext(
            "The bot is being restarted: give the command again to delete the others."
        )
    if stayed:
        said += " " + texts.gettext(
            "Discord did not let the bot remove these messages, which a moderator can delete: {messages}",
            messages=" ".join(stayed[:SHOWN_MESSAGES]),
        )
    await tell_end(request, said)


async def _remove_new(request: Request, jobs: Sequence[Job]) -> list[str]:
    """Delete the messages of results that were delivered while the first messages were deleted."""
    stayed = []
    for job in jobs:
        if not job.state.final:
            try:
                now = await request.services.store.jobs.get(job.id)
            except UnknownJob:  # the member has just erased it
                continue
            if now.message_id != job.message_id and (
                address := await remove_message(request.interaction.client, now)
            ):
                stayed.append(address)
    return stayed


async def _remove(request: Request, job: Job) -> list[str]:
    """Delete the message and the copies of a job; return the address of a message that Discord keeps."""
    await remove_copies(request, job)
    address = await remove_message(request.interaction.client, job)
    return [address] if address else []


CONTROLS = (
    Form(template=rf"{FORM}:(?P<member>[0-9]{{1,19}}):(?P<hours>[0-9]{{1,3}})", act=clear, again=False),
)
