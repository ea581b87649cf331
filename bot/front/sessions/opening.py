"""`/session open`: the form of a host, the thread of a session, and its row."""

from __future__ import annotations

import discord
from discord.app_commands import AppCommandChannel

from bot.domain.errors import UserMistake
from bot.front.answers.answers import acknowledge, open_form
from bot.front.answers.controls import Form
from bot.front.answers.modals import modal, text_field
from bot.front.recipes.options import clean
from bot.front.requests.server_styles import style_of
from bot.front.requests.words import check_texts
from bot.front.services.request import Request, patiently
from bot.front.sessions.hosts import host
from bot.front.sessions.places import HERE, THREAD, Parent, begin, parent_of
from bot.sessions.planning import MAX_THEME, read_minutes, read_quota, read_theme, read_words
from bot.store.rows.audit import By
from bot.store.rows.sessions import GroupSession, Plan
from bot.texts.catalogue import Texts

FORM = "session"
DEFAULT_QUOTA, DEFAULT_VOTE, DEFAULT_HOURS = "4", 5, 6
MINUTE, HOUR = 60.0, 3600.0


async def ask_session(
    request: Request,
    *,
    where: str = THREAD,
    channel: AppCommandChannel | None = None,
    role: discord.Role | None = None,
    voting: int = DEFAULT_VOTE,
    hours: int = DEFAULT_HOURS,
    review: bool = False,
) -> None:
    """Open the form; raises UserMistake as `host`, and `session_two_places` for this channel and another."""
    host(request)
    if where == HERE and channel:
        raise UserMistake("session_two_places")
    texts = request.texts
    theme, style, required, minutes, quota = _labels(texts)
    fields = [
        text_field(
            theme,
            "theme",
            "",
            required=False,
            max_length=MAX_THEME,
            description=texts.gettext("These words are added to every prompt."),
        ),
        text_field(
            style,
            "style",
            "",
            required=False,
            max_length=100,
            description=texts.gettext("A style of this server, whose words are added too."),
        ),
        text_field(
            required,
            "required",
            "",
            required=False,
            max_length=500,
            description=texts.gettext("Words that every prompt must have, separated by commas."),
        ),
        text_field(
            minutes,
            "minutes",
            "10",
            required=False,
            max_length=5,
            description=texts.gettext("Left empty, a round ends when you say so."),
        ),
        text_field(quota, "quota", DEFAULT_QUOTA, max_length=5),
    ]
    ids = f"{role.id if role else 0}:{channel.id if channel else 0}"
    custom_id = f"{FORM}:{where}:{ids}:{voting}:{hours}:{int(review)}"
    await open_form(request, modal(texts.gettext("Open a group session"), custom_id, *fields))


def _labels(texts: Texts) -> tuple[str, str, str, str, str]:
    return (
        texts.gettext("Theme"),
        texts.gettext("Style"),
        texts.gettext("Required words"),
        texts.gettext("Minutes of a round"),
        texts.gettext("Pictures for each person and round"),
    )


async def open_session(
    request: Request,
    *,
    where: str,
    role: str,
    channel: str,
    voting: str,
    hours: str,
    review: str,
    theme: str = "",
    style: str = "",
    required: str = "",
    minutes: str = "",
    quota: str = "",
) -> None:
    """Open the session of the form."""
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    by = host(request)
    (await request.standing()).check_blocked()
    plan = Plan(
        theme=read_theme(clean(theme)),
        required=read_words(clean(required)),
        round_seconds=read_minutes(minutes),
        quota=read_quota(quota),
        vote_seconds=int(voting) * MINUTE,
        session_seconds=int(hours) * HOUR,
        role_id=int(role) or None,
        review=review == "1",
        **await _style(request, style),
    )
    await check_texts(request, [plan.theme, plan.style_prompt, plan.style_negative, *plan.required])
    session = await _open(request, plan, by, parent_of(request, where, int(channel)))
    said = request.texts.gettext("The group session is open: {place}", place=f"<#{session.channel_id}>")
    await request.edit(content=said)


async def _style(request: Request, name: str) -> dict[str, str]:
    if not name.strip():
        return {}
    found = await style_of(request, name.strip())
    texts = {"style_prompt": found.prompt, "style_negative": found.negative_prompt}
    return {"style": found.name, **texts}


async def _open(request: Request, plan: Plan, by: By, parent: Parent | None) -> GroupSession:
    services = request.services
    sessions = services.store.sessions
    await patiently(sessions.check_room, by.guild_id)  # before a thread is there
    locale = await request.locale_for_all()
    thread = await begin(request, parent, plan, Texts.for_locale(locale)) if parent else None
    return await patiently(
        sessions.open,
        plan,
        by,
        channel_id=thread.id if thread else request.channel_id or 0,
        locale=locale,
    )


CONTROLS = (
    Form(
        template=rf"{FORM}:(?P<where>thread|here):(?P<role>[0-9]{{1,19}}):(?P<channel>[0-9]{{1,19}}):(?P<voting>[0-9]{{1,4}})"
        r":(?P<hours>[0-9]{1,2}):(?P<review>[01])",
        act=open_session,
    ),
)
