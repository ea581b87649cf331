"""`/session`: group sessions, opened and led by hosts."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

import discord
from discord.app_commands import AppCommandChannel, Range, Transform, locale_str

from bot.delivery.discord_requests import layout
from bot.domain.errors import UserMistake
from bot.front.answers.answers import acknowledge
from bot.front.answers.controls import Button
from bot.front.gateway.command_tree import Group, Option, for_moderators, make_command, make_group
from bot.front.gateway.translator import command_name
from bot.front.requests.intake import check_takes_part
from bot.front.services.request import Request, Services, patiently
from bot.front.sessions.board import board, round_of
from bot.front.sessions.opening import (
    HERE,
    MINUTE,
    THREAD,
    ParentOption,
    ask_session,
    led,
    taken,
    the_session,
)
from bot.sessions.planning import MAX_MINUTES
from bot.store.rows.sessions import GroupSession, Phase
from bot.texts.catalogue import Texts

MAX_HOURS = 24


def session_group(permission: str = "manage_events") -> Group:
    """The command and its subcommands; Discord shows it to members with this permission."""
    commands = [
        make_command(
            name="open",
            description=locale_str("Open a group session with a theme, rounds and votes."),
            run=ask_session,
            options=_options(),
        ),
        make_command(
            name="next",
            description=locale_str("End the round or the vote, or begin the next round."),
            run=next_phase,
        ),
        make_command(name="pause", description=locale_str("Stop the clock of the session."), run=pause),
        make_command(name="resume", description=locale_str("Resume the session."), run=resume),
        make_command(
            name="extend",
            description=locale_str("Give the round or the vote more time."),
            run=extend,
            options=[
                Option(
                    name="minutes",
                    description=locale_str("How many minutes more."),
                    kind=Range[int, 1, MAX_MINUTES],
                    required=True,
                )
            ],
        ),
        make_command(name="close", description=locale_str("End the session."), run=close),
        make_command(name="show", description=locale_str("Show how the session stands."), run=show),
        make_command(
            name="host", description=locale_str("For moderators: become the host of the session."), run=host
        ),
    ]
    group = make_group(
        name="session",
        description=locale_str("For hosts: group sessions with rounds and votes."),
        commands=commands,
    )
    for_moderators(group).default_permissions = discord.Permissions(**{permission: True})
    return group


def _options() -> list[Option]:
    return [
        Option(
            name="where",
            description=locale_str("Where the session takes place. Default: a thread of its own."),
            kind=str,
            choices=[
                (locale_str("A thread of its own", words=True), THREAD),
                (locale_str("This channel", words=True), HERE),
            ],
        ),
        Option(
            name="channel",
            description=locale_str("A channel for the thread, or a forum for a post. Default: this channel."),
            kind=Transform[AppCommandChannel, ParentOption],
        ),
        Option(
            name="role",
            description=locale_str("Who can take part. Default: everyone."),
            kind=discord.Role,
        ),
        Option(
            name="voting",
            description=locale_str("Minutes to vote after a round; 0 for no vote. Default: 5."),
            kind=Range[int, 0, MAX_MINUTES],
        ),
        Option(
            name="hours",
            description=locale_str("How many hours the session lasts at most. Default: 6."),
            kind=Range[int, 1, MAX_HOURS],
        ),
        Option(
            name="review",
            description=locale_str("Moderators look at each picture before it is shown."),
            kind=bool,
        ),
    ]


async def next_phase(request: Request) -> None:
    """Go on to the next phase."""
    session = await _lead(request, request.services.store.sessions.next)
    await request.edit(content=round_of(session, request.texts))


async def pause(request: Request) -> None:
    """Pause the session."""
    await _lead(request, request.services.store.sessions.pause)
    await _say(request, lambda texts: texts.gettext("The session is paused: its clock has stopped."))


async def resume(request: Request) -> None:
    """Let the session go on."""
    await _lead(request, request.services.store.sessions.resume)
    await _say(request, lambda texts: texts.gettext("The session has resumed."))


async def extend(request: Request, *, minutes: int) -> None:
    """Give more time."""
    extend_by = functools.partial(request.services.store.sessions.extend, seconds=minutes * MINUTE)
    await _lead(request, extend_by)
    await _say(
        request,
        lambda texts: texts.ngettext("Extended by {count} minute.", "Extended by {count} minutes.", minutes),
    )


async def close(request: Request) -> None:
    """Close the session."""
    session = await _lead(request, request.services.store.sessions.close)
    await _say(request, lambda texts: round_of(session, texts))


async def host(request: Request) -> None:
    """Become the host."""
    await acknowledge(request, private=True)
    session, by = await taken(request)
    verb = request.services.store.sessions.take_over
    await patiently(verb, session.id, by)
    await _say(request, lambda texts: texts.gettext("You are the host of this group session now."))


async def show(request: Request) -> None:
    """Show the board to the person alone."""
    await acknowledge(request, private=True)
    session = await the_session(request)
    showing = request.services.store.showing
    content = board(
        session,
        await showing.crowd(session),
        voters=await showing.voters(session.id, session.round),
        texts=request.texts,
    )
    await request.edit(view=layout(content))


async def _lead(request: Request, verb: Callable[..., Awaitable[GroupSession]]) -> GroupSession:
    """Acknowledge, check who asks, and act on the session of the channel."""
    await acknowledge(request, private=True)
    session, by = await led(request)
    try:
        return await patiently(verb, session.id, by)
    except UserMistake as error:
        if error.message_id != "session_paused":
            raise
        resuming = command_name(request.interaction.locale, "session", "resume")
        raise UserMistake("session_paused_led", command=resuming) from error


async def _say(request: Request, said: Callable[[Texts], str]) -> None:
    await request.edit(content=said(request.texts))


async def show_mine(request: Request, session_id: str) -> None:
    """Tell a person the phase of the round, how many pictures they have left in it, and their vote."""
    await acknowledge(request, private=True)
    services = request.services
    session = await _shown_here(request, session_id)
    texts, user_id = request.texts, request.person.id
    said = [round_of(session, texts)]
    if session.paused:
        said.append(texts.gettext("The session is paused: its clock has stopped."))
    elif session.phase is Phase.PAINTING:
        limit, used = session.plan.quota, await services.store.showing.used(session, user_id)
        said.append(
            texts.gettext(
                "Pictures left for you in this round: {left} of {limit}.",
                left=max(0, limit - used),
                limit=limit,
            )
        )
    vote = await services.store.showing.vote_of(session.id, session.round, user_id)
    if vote is not None and session.phase is Phase.VOTING and not await _is_shown(services, session, vote):
        said.append(
            texts.gettext(
                "The picture you voted for, no. {number}, is no longer shown: vote for another.", number=vote
            )
        )
    elif vote is not None:
        said.append(texts.gettext("You have voted for no. {number}.", number=vote))
    await request.edit(content="\n".join(said))


async def _is_shown(services: Services, session: GroupSession, number: int) -> bool:
    """Return whether the picture of this number in the present round may be seen."""
    entries = await services.store.showing.entries(session.id, session.round)
    return any(entry.number == number and entry.artifact is not None for entry in entries)


async def _shown_here(request: Request, session_id: str) -> GroupSession:
    """Return the session of a pressed button; raises UserMistake `session_gone` in another channel."""
    session = await request.services.store.sessions.get(session_id)
    if session.channel_id != request.channel_id:
        raise UserMistake("session_gone")
    return session


async def vote(request: Request, session_id: str, round_number: str, number: str) -> None:
    """Store a vote, and say so to the voter alone."""
    await acknowledge(request, private=True)
    (await request.standing()).check_paints()
    session = await _shown_here(request, session_id)
    check_takes_part(request, session)
    first = await patiently(
        request.services.store.showing.vote,
        *(session_id, int(round_number), int(number)),
        voter_id=request.person.id,
    )
    if first:
        said = request.texts.gettext("You have voted for no. {number}.", number=number)
    else:
        said = request.texts.gettext("Your vote is now for no. {number}.", number=number)
    await request.edit(content=said)


CONTROLS = (
    Button(template=r"group:(?P<session_id>[0-9a-f]{8}):[a-z0-9.]+", act=show_mine),
    Button(
        template=r"vote:(?P<session_id>[0-9a-f]{8}):(?P<round_number>[0-9]{1,9}):(?P<number>[0-9]{1,9})",
        act=vote,
    ),
)
