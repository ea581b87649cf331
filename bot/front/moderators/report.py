"""“Report this picture” in the menu of a message: a member tells moderators that it should not be here."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import discord
from discord.app_commands import locale_str

from bot.domain.errors import StoreUnavailable, UnknownJob, UserMistake
from bot.domain.jobs import lacking
from bot.front.answers.answers import FORM_READ_SECONDS, acknowledge, open_form
from bot.front.answers.controls import Form
from bot.front.answers.modals import modal, reason_field
from bot.front.answers.permissions import sees
from bot.front.gateway.command_tree import MessageMenu, make_menu
from bot.front.moderators.review import shows_reviews
from bot.front.services.request import Request, patiently
from bot.front.uploads.messages import check_no_sheet, result_of

NAME = "Report this picture"
FORM = "report"


def report_menu() -> MessageMenu:
    """The command."""
    return make_menu(name=locale_str(NAME), run=ask_report)


async def ask_report(request: Request, message: discord.Message) -> None:
    """Open the form; raises UserMistake for a message that shows no result, and as `check_no_sheet`."""
    if request.server_id is None:
        raise UserMistake("moderate_no_server")
    check_no_sheet(message, request.bot_id)
    job_id = result_of(message, request.bot_id)
    if job_id is None:
        raise UserMistake("report_no_picture")
    with suppress(StoreUnavailable, TimeoutError):  # the form's submission checks it again
        async with asyncio.timeout(FORM_READ_SECONDS):
            job = await request.services.store.jobs.get(job_id)
            if not any(image.artifact for image in job.images):
                raise UserMistake(lacking(job.images))
    texts = request.texts
    why = reason_field(texts, texts.gettext("Moderators read it, without your name."), required=True)
    await open_form(request, modal(texts.gettext("Report this picture?"), f"{FORM}:{job_id}", why))


async def report_picture(request: Request, job_id: str, *, reason: str = "") -> None:
    """Store the report; raises UnknownJob for a picture that the person does not see."""
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    job = await services.store.jobs.get(job_id)
    if job.origin.private or not sees(request, job):
        raise UnknownJob(job=job_id)
    hidden = await patiently(
        services.store.reports.add,
        job_id,
        request.person.id,
        guild_id=request.guild_id or 0,
        reason=" ".join(reason.split()),
    )
    texts = request.texts
    said = texts.gettext("Thank you: moderators of this server see your report.")
    if not await shows_reviews(request):
        said = texts.gettext(
            "Thank you: your report is kept. The moderators of this server have chosen no channel for "
            "reviews yet, so it may take a while."
        )
    if hidden:
        said += " " + texts.gettext("The picture is hidden until they have looked at it.")
    await request.edit(content=said)


CONTROLS = (Form(template=rf"{FORM}:(?P<job_id>[0-9a-z]+)", act=report_picture, again=False),)
