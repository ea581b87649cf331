"""`/cancel`: a person's own requests; a moderator's choice of anyone's in their server."""

from __future__ import annotations

from collections.abc import Sequence

from discord import app_commands
from discord.app_commands import Range, locale_str

from bot.delivery.render import shown
from bot.errors import StoreUnavailable, UserMistake
from bot.front.commands.describing import Command, Option, make_command
from bot.front.commands.queue import standing
from bot.front.first_answers import acknowledge
from bot.front.options import MAX_CHOICES, echo
from bot.front.parts import Interaction, parts_of
from bot.front.rights import asker, moderates
from bot.jobs import Job
from bot.texts import Texts

ALL = "all"
MAX_CHOICE_NAME = 100
SHOWN_PROMPT = 200


def cancel_command() -> Command:
    """The command."""
    job = Option(
        name="job",
        description=locale_str("Which request to cancel. Left out: the only one there is."),
        kind=Range[str, 1, 100],
        autocomplete=suggest_jobs,
    )
    return make_command(
        name="cancel",
        description=locale_str("Cancel what you asked for, waiting or being painted."),
        run=cancel,
        options=[job],
    )


async def cancel(interaction: Interaction, *, job: str | None = None) -> None:
    """Cancel the chosen request, all of the person's own, or the only one they have."""
    await acknowledge(interaction, private=True)
    store = parts_of(interaction).store
    job = job and job.strip().lower()
    if job is None or job == ALL:
        chosen = await store.active_jobs(user_id=interaction.user.id)
        if not chosen:
            raise UserMistake("nothing_to_cancel")
        if job is None and len(chosen) > 1:
            raise UserMistake("choose_request", count=len(chosen))
    else:
        chosen = [await _allowed(interaction, job)]
    for one in chosen:
        await store.cancel(one.id, user_id=asker(interaction, one))
    said = said_of_cancelled(chosen, parts_of(interaction).texts(interaction))
    await interaction.edit_original_response(content=said)


def said_of_cancelled(jobs: Sequence[Job], texts: Texts) -> str:
    """What was cancelled."""
    if len(jobs) == 1:
        return texts.gettext("Cancelled: {prompt}", prompt=shown(jobs[0].recipe.prompt, SHOWN_PROMPT))
    return texts.ngettext("Cancelled {count} request.", "Cancelled {count} requests.", len(jobs))


async def _allowed(interaction: Interaction, job_id: str) -> Job:
    job = await parts_of(interaction).store.job(job_id)
    if job.state.final and asker(interaction, job) in (None, job.origin.user_id):
        raise UserMistake("already_ended")
    return job


async def suggest_jobs(interaction: Interaction, typed: str) -> list[app_commands.Choice[str]]:
    """The person's own active requests, then for moderators everybody's in the server."""
    parts = parts_of(interaction)
    texts = parts.texts(interaction)
    try:
        mine = await parts.store.active_jobs(user_id=interaction.user.id)
        here = await parts.store.active_jobs(guild_id=interaction.guild_id) if interaction.guild_id else []
    except StoreUnavailable:
        return []
    others = [
        job for job in here if job.origin.user_id != interaction.user.id and moderates(interaction, job)
    ]
    choices = [
        app_commands.Choice(name=job_name(job, viewer=interaction.user.id, texts=texts), value=job.id)
        for job in [*mine, *others]
    ]
    if len(mine) > 1:
        choices.insert(0, app_commands.Choice(name=texts.gettext("All of mine"), value=ALL))
    wanted = typed.strip().casefold()
    return [choice for choice in choices if wanted in choice.name.casefold()][:MAX_CHOICES]


def job_name(job: Job, *, viewer: int, texts: Texts) -> str:
    """A request as it is offered for choice: where it stands and what it shows, at most 100 characters."""
    secret = job.origin.private and job.origin.user_id != viewer
    prompt = texts.gettext("private") if secret else echo(job.recipe.prompt)
    name = f"{job.id} · {standing(job, None, texts)} · {prompt}"
    return name if len(name) <= MAX_CHOICE_NAME else name[: MAX_CHOICE_NAME - 1] + "…"
