"""`/queue`: who waits for what, in fair order, with honest times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from discord.app_commands import locale_str

from bot.delivery.render import shown
from bot.front.answers import acknowledge, page
from bot.front.commands.describing import Command, make_command
from bot.front.parts import Interaction, parts_of
from bot.front.rights import sees
from bot.jobs import Job, Position, State
from bot.texts import Texts

SHOWN_JOBS = 10
SHOWN_PROMPT = 80
READ_JOBS = 1000


def queue_command() -> Command:
    """The command."""
    return make_command(
        name="queue",
        description=locale_str("See what is waiting and being painted here."),
        run=show_queue,
    )


async def show_queue(interaction: Interaction) -> None:
    """The queue of this server, or in a direct message the person's own; to them alone."""
    await acknowledge(interaction, private=True)
    parts = parts_of(interaction)
    here, me = interaction.guild_id, interaction.user.id
    mine_only = None if here else me
    jobs = await parts.store.active_jobs(user_id=mine_only, guild_id=here, limit=READ_JOBS)
    texts = parts.texts(interaction)
    heading = texts.gettext("The queue of this server") if here else texts.gettext("Your queue")
    seen = {job.id for job in jobs if sees(interaction, job)}
    lines = queue_lines(jobs, await parts.store.positions(), viewer=me, seen=seen, texts=texts)
    totals = totals_line(await parts.store.counts(), texts)
    await interaction.edit_original_response(view=page("\n".join([f"### {heading}", *lines, f"-# {totals}"])))


def queue_lines(
    jobs: Sequence[Job],
    positions: Mapping[str, Position],
    *,
    viewer: int,
    seen: Collection[str],
    texts: Texts,
) -> list[str]:
    """One line for each job in fair order, and how many there are beyond those shown.

    The viewer's own jobs are shown even where they stand far behind. Of others' only those `seen`, by id,
    show their words: the rest were asked for in channels that are closed to the viewer.
    """
    if not jobs:
        return [texts.gettext("Nothing is waiting and nothing is being painted.")]
    numbered = list(enumerate(jobs, start=1))
    first = [
        (number, job) for number, job in numbered if number <= SHOWN_JOBS or job.origin.user_id == viewer
    ][: 2 * SHOWN_JOBS]
    lines = [
        f"{number}\\. {_line(job, positions.get(job.id), viewer=viewer, seen=job.id in seen, texts=texts)}"
        for number, job in first
    ]
    if rest := len(jobs) - len(first):
        lines.append(texts.ngettext("and {count} more request", "and {count} more requests", rest))
    return lines


def totals_line(counts: Mapping[State, int], texts: Texts) -> str:
    """How much there is in all servers together."""
    waiting, running = counts[State.WAITING], counts[State.RUNNING]
    return texts.gettext(
        "Everywhere together: {waiting}, {running}.",
        waiting=texts.ngettext("{count} request waits", "{count} requests wait", waiting),
        running=texts.ngettext("{count} is being painted", "{count} are being painted", running),
    )


def _line(job: Job, position: Position | None, *, viewer: int, seen: bool, texts: Texts) -> str:
    mine = job.origin.user_id == viewer
    you, private = texts.gettext("you"), texts.gettext("private")
    who = f"**{you}**" if mine else f"<@{job.origin.user_id}>"
    secret = not mine and (job.origin.private or not seen)
    what = f"*{private}*" if secret else shown(job.recipe.prompt, SHOWN_PROMPT)
    pictures = texts.ngettext("{count} picture", "{count} pictures", len(job.images))
    return " · ".join([who, what, pictures, standing(job, position, texts)])


def standing(job: Job, position: Position | None, texts: Texts) -> str:
    """Where an active job stands, in a few words."""
    running = [image.step for image in job.images if image.state is State.RUNNING]
    if running:
        steps = job.recipe.steps
        return texts.gettext("painting, step {step} of {steps}", step=min(running), steps=steps)
    if position is None or position.seconds is None:
        return texts.gettext("waiting")
    return texts.gettext("starts in about {time}", time=texts.duration(position.seconds))
