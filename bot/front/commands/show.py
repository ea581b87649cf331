"""`/show`: a result again by its short id, with its buttons, to the person alone."""

from __future__ import annotations

from discord import app_commands
from discord.app_commands import Range, locale_str

from bot.domain.errors import StoreUnavailable
from bot.front.commands.naming import request_name
from bot.front.gateway.command_tree import Command, Option, make_command
from bot.front.recipes.options import MAX_CHOICES
from bot.front.results.shown_again import can_be_shown, show_again
from bot.front.services.request import Request

SUGGESTED_FROM = 50  # of the person's newest requests


def show_command() -> Command:
    """The command."""
    job = Option(
        name="job",
        description=locale_str("The result's short id: see Info or the file name."),
        kind=Range[str, 1, 100],
        required=True,
        autocomplete=suggest_results,
    )
    return make_command(
        name="show",
        description=locale_str("Show a result again with its buttons, to you alone."),
        run=show,
        options=[job],
    )


async def show(request: Request, *, job: str) -> None:
    """Show the result of this id, as typed."""
    await show_again(request, job.strip().lower())


async def suggest_results(request: Request, typed: str) -> list[app_commands.Choice[str]]:
    """Suggest the person's own newest results whose words or ids have what was typed."""
    services = request.services
    texts, now = request.texts, services.clock()
    try:
        jobs = await services.store.jobs.history(request.person.id, limit=SUGGESTED_FROM)
    except StoreUnavailable:
        return []
    wanted = typed.strip().casefold()
    found = [
        app_commands.Choice(name=request_name(job, now=now, texts=texts, named=False), value=job.id)
        for job in jobs
        if can_be_shown(job) and (wanted in job.recipe.prompt.casefold() or job.id.startswith(wanted))
    ]
    return found[:MAX_CHOICES]
