"""`/cancel`: a person's own requests; for moderators, any request of their server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import discord
from discord import app_commands
from discord.app_commands import Range, locale_str

from bot.delivery.content import ButtonContent, Choice, MenuContent, MessageContent, Tone
from bot.delivery.discord_requests import layout
from bot.domain.errors import StoreUnavailable, UnreadableJob, UserMistake
from bot.domain.jobs import Job
from bot.front.answers.answers import acknowledge, acknowledge_press
from bot.front.answers.controls import Button, Menu
from bot.front.answers.permissions import asker, moderates, moderator_of
from bot.front.commands.queue import request_facts, request_name, request_words
from bot.front.gateway.command_tree import Command, Option, make_command
from bot.front.recipes.options import MAX_CHOICES
from bot.front.services.request import Request
from bot.texts.catalogue import Texts
from bot.texts.markup import shown

ALL = "all"
SHOWN_PROMPT = 200
SUGGESTED_FROM = 50  # requests
MINE, OTHERS = "cancel_mine", "cancel_others"  # the menus
CANCEL_ALL = "cancel_all"


def cancel_command() -> Command:
    """The command."""
    job = Option(
        name="job",
        description=locale_str("Which request to cancel. Default: your only one, or a menu to choose from."),
        kind=Range[str, 1, 100],
        autocomplete=suggest_jobs,
    )
    return make_command(
        name="cancel",
        description=locale_str("Cancel your requests that are waiting or being painted."),
        run=cancel,
        options=[job],
    )


async def cancel(request: Request, *, job: str | None = None) -> None:
    """Cancel the chosen request, all of the person's own, or their only one; else show menus of requests."""
    await acknowledge(request, private=True)
    job = job and job.strip().lower()
    if job == ALL:
        await cancel_all(request)
    elif job is not None:
        await cancel_chosen(request, [job])
    else:
        mine, others = await active_here(request)
        if not mine and not others:
            await cancel_all(request, unless_several=True)
        elif len(mine) == 1:
            await cancel_chosen(request, [mine[0].id])
        else:
            await request.edit(view=_choosing(request, mine, others))


async def cancel_all(request: Request, *, unless_several: bool = False) -> None:
    """Cancel all of the person's own requests; the interaction is acknowledged already.

    Raises UserMistake `nothing_to_cancel`; `unless_several`, raises UnreadableJob where they have several,
    none of which this version can read, so that no menu can show them.
    """
    mine = await request.services.store.jobs.active_ids(request.person.id)
    if not mine:
        raise UserMistake("nothing_to_cancel")
    if unless_several and len(mine) > 1:
        raise UnreadableJob
    await cancel_chosen(request, mine)


async def cancel_chosen(request: Request, job_ids: Sequence[str]) -> None:
    """Cancel these requests and say so; the interaction is acknowledged already.

    Of the requests that this version cannot read, a person may cancel their own. Raises UserMistake
    `already_ended` where all of them had ended, NotYours and UnknownJob.
    """
    store = request.services.store
    chosen, unreadable = [], []
    for job_id in job_ids:
        try:
            chosen.append(await store.jobs.get(job_id))
        except UnreadableJob:
            unreadable.append(job_id)
    rights = [asker(request, job) for job in chosen]
    if not unreadable and all(
        job.state.final and right in (None, job.origin.user_id)
        for job, right in zip(chosen, rights, strict=True)
    ):
        raise UserMistake("already_ended")
    for job_id in unreadable:
        await store.jobs.cancel(job_id, user_id=request.person.id)
    ended = [
        await store.jobs.cancel(job.id, user_id=right, by=moderator_of(request, job))
        for job, right in zip(chosen, rights, strict=True)
        if not job.state.final or right not in (None, job.origin.user_id)
    ]
    cancelled = [job for job in ended if job is not None]
    secret = any(job.origin.private and job.origin.user_id != request.person.id for job in cancelled)
    said = said_of_cancelled(cancelled, request.texts, secret=secret, unreadable=len(unreadable))
    content = MessageContent(heading=said, tone=Tone.CANCELLED)
    await request.edit(view=layout(content))


def said_of_cancelled(jobs: Sequence[Job], texts: Texts, *, secret: bool, unreadable: int = 0) -> str:
    """Return the sentence about cancelled requests; one request is named by its words, unless `secret`.

    `unreadable` requests were cancelled too.
    """
    done, total = sum(job.work.done for job in jobs), len(jobs) + unreadable
    if len(jobs) == total == 1:
        words = texts.gettext("private") if secret else shown(jobs[0].recipe.prompt, SHOWN_PROMPT)
        said = texts.gettext("Cancelled: {prompt}", prompt=words)
        separator = "\n"
    else:
        said = texts.ngettext("Cancelled {count} request.", "Cancelled {count} requests.", total)
        separator = " "
    if not done:
        return said
    count = sum(job.work.count for job in jobs)
    kept = texts.gettext(
        "{done} of {count} pictures were painted already and are kept.", done=done, count=count
    )
    return f"{said}{separator}{kept}"


async def active_here(request: Request, *, limit: int = 100) -> tuple[list[Job], list[Job]]:
    """Return the person's own active requests, and others' in the server if the person moderates it."""
    store = request.services.store
    mine = await store.jobs.active(user_id=request.person.id, limit=limit)
    here = await store.jobs.active(guild_id=request.guild_id, limit=limit) if request.guild_id else []
    others = (job for job in here if job.origin.user_id != request.person.id)
    return mine, [job for job in others if moderates(request, job)]


def _choosing(request: Request, mine: Sequence[Job], others: Sequence[Job]) -> discord.ui.LayoutView:
    """Return a message with menus of these requests."""
    return layout(choosing(mine, others, now=request.services.clock(), texts=request.texts))


def choosing(mine: Sequence[Job], others: Sequence[Job], *, now: float, texts: Texts) -> MessageContent:
    """Return a menu of the person's own requests and one of others', within the size of menus."""
    lines, menus = [], []
    if mine:
        lines.append(
            texts.ngettext(
                "You have {count} request: choose what to cancel.",
                "You have {count} requests: choose what to cancel.",
                len(mine),
            )
        )
        menus.append(_menu(MINE, texts.gettext("Your requests"), mine, now=now, texts=texts))
    if others:
        placeholder = texts.gettext("Requests of others")
        lines.append(
            texts.ngettext(
                "Others have {count} request here that you may cancel.",
                "Others have {count} requests here that you may cancel.",
                len(others),
            )
        )
        menus.append(_menu(OTHERS, placeholder, others, now=now, texts=texts, named=True))
    if max(len(mine), len(others)) > MAX_CHOICES:
        lines.append(texts.gettext("A menu lists the first {count}.", count=MAX_CHOICES))
    button = ButtonContent(label=texts.gettext("Cancel all of mine"), custom_id=CANCEL_ALL, dangerous=True)
    return MessageContent(
        heading="\n".join(lines),
        menus=tuple(menus),
        rows=((button,),) if mine else (),
        tone=Tone.WAITING,
    )


def _menu(
    custom_id: str, placeholder: str, jobs: Sequence[Job], *, now: float, texts: Texts, named: bool = False
) -> MenuContent:
    choices = (
        Choice(
            label=request_words(job, texts, secret=named and job.origin.private),
            value=job.id,
            description=request_facts(job, now=now, texts=texts, named=named),
        )
        for job in jobs[:MAX_CHOICES]
    )
    return MenuContent(custom_id=custom_id, placeholder=placeholder, choices=tuple(choices), most=MAX_CHOICES)


async def suggest_jobs(request: Request, typed: str) -> list[app_commands.Choice[str]]:
    """Suggest the person's own active requests, then for moderators of this channel others of the server."""
    services = request.services
    texts = request.texts
    try:
        # Each keystroke asks: the requests of others are read for those alone who may cancel some.
        if request.interaction.permissions.manage_messages:
            mine, others = await active_here(request, limit=SUGGESTED_FROM)
        else:
            mine, others = (
                await services.store.jobs.active(user_id=request.person.id, limit=MAX_CHOICES),
                [],
            )
    except StoreUnavailable:
        return []
    choices = [
        *_suggestions(mine, services.clock(), texts),
        *_suggestions(others, services.clock(), texts, named=True),
    ]
    if len(mine) > 1:
        choices.insert(0, app_commands.Choice(name=texts.gettext("All of mine"), value=ALL))
    wanted = typed.strip().casefold()
    found = (choice for choice in choices if wanted in choice.name.casefold() or wanted == choice.value)
    return list(found)[:MAX_CHOICES]


def _suggestions(
    jobs: Iterable[Job], now: float, texts: Texts, *, named: bool = False
) -> list[app_commands.Choice[str]]:
    return [
        app_commands.Choice(name=request_name(job, now=now, texts=texts, named=named), value=job.id)
        for job in jobs
    ]


async def cancel_job(request: Request, job_id: str) -> None:
    """Cancel the job of a message; the delivery edits its message. Moderators may, too."""
    await acknowledge_press(request)
    store = request.services.store
    try:
        job = await store.jobs.get(job_id)
    except UnreadableJob:  # the person needs no more than its id
        await store.jobs.cancel(job_id, user_id=request.person.id)
        return
    right = asker(request, job)
    if job.state.final and right in (None, job.origin.user_id):
        raise UserMistake("already_ended")
    await store.jobs.cancel(job_id, user_id=right, by=moderator_of(request, job))


async def cancel_selected(request: Request, job_ids: Sequence[str]) -> None:
    """Cancel the chosen jobs; the permission is checked for each."""
    await acknowledge_press(request)
    await cancel_chosen(request, job_ids)


async def cancel_everything(request: Request) -> None:
    """Cancel all active jobs of the person who presses."""
    await acknowledge_press(request)
    await cancel_all(request)


CONTROLS = (
    Button(template=r"cancel:(?P<job_id>[0-9a-z]+)", act=cancel_job),
    Menu(template=f"(?:{MINE}|{OTHERS})", act=cancel_selected),
    Button(template=CANCEL_ALL, act=cancel_everything),
)
