"""`/queue`: the waiting and running jobs in fair order, with estimated times; jobs in a few plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from discord.app_commands import locale_str

from bot.domain.jobs import Job, Position, State, model_and_size
from bot.front.answers.answers import acknowledge, page, page_lines
from bot.front.answers.permissions import sees
from bot.front.gateway.command_tree import Command, make_command
from bot.front.recipes.options import clean
from bot.front.services.request import Request
from bot.store.queue.batches import Batch
from bot.store.queue.jobs import Jobs
from bot.texts.catalogue import SEPARATOR, Texts
from bot.texts.markup import shown, tidy

SHOWN_JOBS = 10
SHOWN_PROMPT = 80
SHOWN_LANES, SHOWN_SEATS, SHOWN_PEOPLE = 4, 16, 8
SEAT, FREE_SEAT = "■", "□"
MAX_NAME = 100  # characters of a suggestion, and of a choice's label and description


def queue_command() -> Command:
    """The command."""
    return make_command(
        name="queue",
        description=locale_str("See what is waiting and being painted here."),
        run=show_queue,
    )


async def show_queue(request: Request) -> None:
    """Show the queue of this server, or in a direct message the person's own, to that person alone."""
    await acknowledge(request, private=True)
    services = request.services
    here, me = request.guild_id, request.person.id
    listing = await list_queue(services.store.jobs, viewer=me, guild_id=here)
    texts = request.texts
    heading = texts.gettext("The queue of this server") if here else texts.gettext("Your queue")
    seen = {job.id for _, job in listing.jobs if sees(request, job)}
    positions = await services.store.positions.of_all([job.id for _, job in listing.jobs])
    lines = queue_lines(listing, positions, viewer=me, seen=seen, texts=texts)
    batches = batch_lines(await services.store.batches.now(), viewer=me, guild_id=here, texts=texts)
    totals = totals_line(await services.store.jobs.counts((State.WAITING, State.RUNNING)), texts)
    rest = listing.total - len(listing.jobs)
    text = page_lines([f"### {heading}", *lines], texts, further=rest, below=[*batches, f"-# {totals}"])
    await request.edit(view=page(text))


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Some active jobs, each with its number among all, and the number of all."""

    jobs: Sequence[tuple[int, Job]]
    total: int


async def list_queue(jobs: Jobs, *, viewer: int, guild_id: int | None) -> Listing:
    """Return the first jobs of a server, or of the viewer without one, and the viewer's own later jobs."""
    whose = None if guild_id else viewer
    first = await jobs.active(user_id=whose, guild_id=guild_id, limit=SHOWN_JOBS)
    numbered = list(enumerate(first, start=1))
    if len(first) < SHOWN_JOBS:
        return Listing(jobs=numbered, total=len(first))
    mine = await jobs.active(user_id=viewer, guild_id=guild_id, limit=2 * SHOWN_JOBS)
    further = [job for job in mine if job.id not in {shown.id for shown in first}][:SHOWN_JOBS]
    for job in further:
        before = await jobs.count_active(user_id=whose, guild_id=guild_id, before=job.id)
        numbered.append((before + 1, job))
    return Listing(jobs=numbered, total=await jobs.count_active(user_id=whose, guild_id=guild_id))


def queue_lines(
    listing: Listing,
    positions: Mapping[str, Position],
    *,
    viewer: int,
    seen: Collection[str],
    texts: Texts,
) -> list[str]:
    """Return a line for each shown job.

    Words of others' jobs are shown only for the ids in `seen`: the viewer cannot see the other channels.
    """
    if not listing.jobs:
        return [texts.gettext("Nothing is waiting and nothing is being painted.")]
    return [
        texts.line(
            _line(job, positions.get(job.id), viewer=viewer, seen=job.id in seen, texts=texts),
            mark=f"{number}\\. ",
        )
        for number, job in listing.jobs
    ]


def batch_lines(batches: Sequence[Batch], *, viewer: int, guild_id: int | None, texts: Texts) -> list[str]:
    """Return lines about the lanes on the devices: seats, whose images have them, and the next free seat.

    Other people's images of other servers are only counted.
    """
    lines = [
        texts.line(_batch_line(batch, viewer, guild_id, texts), mark="- ") for batch in batches[:SHOWN_LANES]
    ]
    if lines:
        heading = texts.gettext("On the devices now")
        lines.insert(0, f"**{heading}**")
    return lines


def _batch_line(batch: Batch, viewer: int, guild_id: int | None, texts: Texts) -> str:
    model, size = model_and_size(batch.lane)
    taken, free = len(batch.images), batch.seats - len(batch.images)
    cells = (SEAT * taken + FREE_SEAT * free) if batch.seats <= SHOWN_SEATS else ""
    seats = texts.gettext("{taken} of {seats} seats", taken=taken, seats=batch.seats)
    parts = [f"{shown(model, SHOWN_PROMPT)} {size.replace('x', '×')}", f"{cells} {seats}".strip()]
    whose = Counter(
        image.user_id if image.user_id == viewer or (guild_id and image.guild_id == guild_id) else None
        for image in batch.images
    )
    elsewhere = whose.pop(None, 0)
    parts += [f"{_who(user_id, viewer, texts)} {count}" for user_id, count in whose.most_common(SHOWN_PEOPLE)]
    if rest := elsewhere + sum(count for _, count in whose.most_common()[SHOWN_PEOPLE:]):
        parts.append(texts.gettext("others {count}", count=rest))
    if batch.seconds:
        parts.append(texts.gettext("a seat is free in about {time}", time=texts.duration(batch.seconds)))
    return texts.joined(parts)


def _who(user_id: int | None, viewer: int, texts: Texts) -> str:
    you = texts.gettext("you")
    return f"**{you}**" if user_id == viewer else f"<@{user_id}>"


def totals_line(counts: Mapping[State, int], texts: Texts) -> str:
    """Return the totals over all servers."""
    waiting, running = counts[State.WAITING], counts[State.RUNNING]
    return texts.gettext(
        "Everywhere: {waiting}, {running}.",
        waiting=texts.ngettext("{count} request waits", "{count} requests wait", waiting),
        running=texts.ngettext("{count} is being painted", "{count} are being painted", running),
    )


def _line(job: Job, position: Position | None, *, viewer: int, seen: bool, texts: Texts) -> str:
    mine = job.origin.user_id == viewer
    who = _who(job.origin.user_id, viewer, texts)
    private, hidden = texts.gettext("private"), texts.gettext("hidden")
    if not mine and (job.origin.private or not seen):
        what = f"*{private}*"
    elif not mine and job.hides_words:
        what = f"*{hidden}*"
    else:
        what = shown(job.recipe.prompt, SHOWN_PROMPT)
    pictures = texts.ngettext("{count} picture", "{count} pictures", len(job.images))
    return texts.joined([who, what, pictures, standing(job, position, texts)])


def standing(job: Job, position: Position | None, texts: Texts) -> str:
    """Return the place or progress of an active job in a few words."""
    work = job.work
    if job.state is State.WAITING and position is not None and position.paused is not None:
        return texts.gettext("paused")
    if job.state is State.RUNNING and (work.begun or position is None or not position.seconds):
        said = texts.gettext("painting, step {step} of {steps}", step=work.step, steps=work.steps)
        if position is None or position.end is None:
            return said
        end = texts.gettext("done in about {time}", time=texts.duration(position.end))
        return f"{said} · {end}"
    if position is not None and position.is_unserved:
        return texts.gettext("waiting: nothing paints it at the moment")
    if position is None or position.seconds is None or position.end is None:
        return texts.gettext("waiting")
    return texts.gettext(
        "starts in about {start}, done in about {end}",
        start=texts.duration(position.seconds),
        end=texts.duration(position.end),
    )


def request_words(job: Job, texts: Texts, *, secret: bool) -> str:
    """Return the words of the request, or “private” if `secret`."""
    if secret:
        return texts.gettext("private")
    return _cut(tidy(clean(job.recipe.prompt)), MAX_NAME)


def request_facts(job: Job, *, now: float, texts: Texts, named: bool) -> str:
    """Return the owner if `named`, the number of pictures, the age, and the state of an active request."""
    work = job.work
    facts = [
        texts.ngettext("{count} picture", "{count} pictures", work.count),
        texts.age(now - job.created_at),
    ]
    if job.state is State.WAITING:
        facts.append(texts.gettext("waiting"))
    elif job.state is State.RUNNING:
        facts.append(texts.gettext("painting, step {step} of {steps}", step=work.step, steps=work.steps))
    if named:
        facts.insert(0, _cut(tidy(job.origin.user_name), 30) or str(job.origin.user_id))
    return _cut(texts.line(texts.joined(facts)), MAX_NAME)


def request_name(job: Job, *, now: float, texts: Texts, named: bool) -> str:
    """Return all facts on one line, the words last; another person's private words are left out."""
    facts = request_facts(job, now=now, texts=texts, named=named)
    words = request_words(job, texts, secret=named and job.origin.private)
    room = MAX_NAME - len(facts) - len(SEPARATOR) - len(texts.isolated(""))
    return facts if room < 1 else f"{facts}{SEPARATOR}{texts.isolated(_cut(words, room))}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
