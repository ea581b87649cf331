"""Rows of jobs, images and recipes to plain data and back, and rows that this version cannot read."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.channels import ChannelKind
from bot.domain.errors import UnknownJob, UnreadableJob
from bot.domain.holds import Appeal, Cause, Hold, Outcome, Ruling
from bot.domain.jobs import (
    GIVEN,
    Descent,
    ImageRecord,
    Job,
    Notes,
    Origin,
    Parent,
    Recipe,
    Showing,
    Showings,
    State,
)
from bot.domain.levels import Level
from bot.store.database.database import of_row
from bot.store.tables.queue import images, jobs
from sdjax_engine.request import (
    WHOLE,
    ControlType,
    Int8,
    Lora,
    Offer,
    PictureScores,
    PromptFacts,
    SafetyScores,
    Sampler,
    SecondPass,
    Variation,
)

T = TypeVar("T")

MOST_ROWS = 1000  # that one statement reads while it looks for readable ones
LARGEST_ID = 2**63 - 1  # that a column of the database takes
log = logging.getLogger(__name__)

UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)
"""The errors of reading a row that another version has written, or that is damaged."""
DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(Recipe)}
"""The default values of a recipe, by name. Rows leave them out, so no later version may change them."""


_WORDS = frozenset({"prompt", "negative_prompt", "loras", "style", "controlnet", *GIVEN})


async def check_readable(connection: AsyncConnection, job_id: str) -> None:
    """Raise UnreadableJob for a recipe with values that this version would lose in a copy."""
    said = await connection.scalar(sa.select(jobs.c.recipe).where(jobs.c.id == job_id))
    if said is not None and not is_readable(said):
        raise UnreadableJob(job=job_id)


async def first_readable(
    connection: AsyncConnection,
    look: sa.Select[Any],
    read: Callable[[Sequence[Any]], Awaitable[Sequence[T]]],
    *,
    limit: int,
) -> list[T]:
    """Return the first `limit` rows of an ordered select, as `read` makes plain data of them.

    `read` leaves out rows that this version cannot read. They hide no other row, however many they are.
    """
    found: list[T] = []
    passed, size = 0, limit
    while True:
        rows = list(await connection.execute(look.offset(passed).limit(size)))
        found += await read(rows)
        passed += len(rows)
        if len(found) >= limit or len(rows) < size:
            return found[:limit]
        size = min(2 * size, MOST_ROWS)


async def readable_rows(connection: AsyncConnection, look: sa.Select[Any], *, limit: int) -> list[Any]:
    """Return up to `limit` rows whose `recipe` this version can read; newer workers paint the others."""

    async def read(rows: Sequence[Any]) -> list[Any]:
        return [row for row in rows if is_readable(row.recipe)]

    return await first_readable(connection, look, read, limit=limit)


def offer_values(offer: Offer) -> dict[str, Any]:
    """Return the offer as JSON values."""
    return {**asdict(offer), "sampler": offer.sampler.value}


def offer_from(values: dict[str, Any]) -> Offer:
    """Return the offer that `offer_values` wrote, perhaps in a version with more values."""
    known = {field.name: values[field.name] for field in fields(Offer) if field.name in values}
    sizes = tuple((width, height) for width, height in known["sizes"])
    kept = {"sizes": sizes, "sampler": Sampler(known["sampler"])}
    types = ((kind, name) for kind, name in known.get("control_types", ()) if kind in list(ControlType))
    kept["control_types"] = tuple((ControlType(kind), name) for kind, name in types)
    samplers = tuple(sampler for sampler in Sampler if sampler in known.get("samplers", ()))
    interval = tuple(known.get("guidance_interval", WHOLE))
    kept |= {name: tuple(known.get(name, ())) for name in ("loras", "controlnets", "embeddings")}
    kept |= {"samplers": samplers, "guidance_interval": interval, "int8": int8_from(known.get("int8", ()))}
    return Offer(**{**known, **kept})


def int8_from(names: Sequence[str]) -> tuple[Int8, ...]:
    """Return the parts of a model of these names; those of a newer version are left out."""
    return tuple(part for part in Int8 if part in names)


def notes_from(values: dict[str, Any] | None) -> Notes:
    """Return the notes that `asdict` gave as JSON values; empty notes for an image without any."""
    known = dict(values or {})
    safety = known.pop("safety", None)
    if safety is not None:
        scores = {name: tuple(safety[name]) for name in ("concepts", "special_care")}
        safety = SafetyScores(flagged=safety["flagged"], **scores)
    classified = known.pop("classified", None)
    if classified is not None:
        classified = PictureScores(**{name: tuple(classified[name]) for name in ("labels", "probabilities")})
    int8 = int8_from(known.pop("int8", ()))
    level, blocked = Level(known.pop("level", Level.NONE)), bool(known.pop("known", False))
    facts: dict[str, Any] = {
        field.name: said and PromptFacts(**said | {"unknown": tuple(said.get("unknown", ()))})
        for field in fields(Notes)
        if (said := known.get(field.name)) is not None
    }
    return Notes(safety=safety, classified=classified, level=level, known=blocked, int8=int8, **facts)


async def load_jobs(connection: AsyncConnection, job_ids: Sequence[str]) -> list[Job]:
    """Return the jobs of these ids, in the same order, each with its images.

    Jobs that do not exist, or that this version cannot read, are left out; the latter are logged once.
    """
    rows = await connection.execute(sa.select(jobs).where(jobs.c.id.in_(job_ids)))
    job_rows = {row.id: row for row in rows}
    of_job: dict[str, list[Any]] = {job_id: [] for job_id in job_rows}
    statement = (
        sa.select(images).where(images.c.job_id.in_(job_ids)).order_by(images.c.job_id, images.c.index)
    )
    for row in await connection.execute(statement):
        of_job[row.job_id].append(row)
    loaded = []
    for job_id in job_ids:
        if job_id not in job_rows:
            continue
        try:
            loaded.append(_job(job_rows[job_id], of_job[job_id]))
        except UNREADABLE as error:
            tell_unreadable("job", job_id, str(error))
    return loaded


async def load_first(connection: AsyncConnection, look: sa.Select[Any], *, limit: int) -> list[Job]:
    """Return the first `limit` jobs of a select of ids that this version can read."""

    async def read(rows: Sequence[Any]) -> list[Job]:
        return await load_jobs(connection, [row.id for row in rows])

    return await first_readable(connection, look, read, limit=limit)


async def unreadable_among(
    connection: AsyncConnection, job_ids: Sequence[str], found: Sequence[Job]
) -> set[str]:
    """Return the ids of the jobs that exist and that `load_jobs` has left out of `found`."""
    missing = set(job_ids) - {job.id for job in found}
    if not missing:
        return missing
    return set(await connection.scalars(sa.select(jobs.c.id).where(jobs.c.id.in_(missing))))


async def load_job(connection: AsyncConnection, job_id: str) -> Job:
    """Return the job of this id; raises UnknownJob or UnreadableJob."""
    if found := await load_jobs(connection, [job_id]):
        return found[0]
    there = await connection.scalar(sa.select(jobs.c.id).where(jobs.c.id == job_id))
    raise UnknownJob(job=job_id) if there is None else UnreadableJob(job=job_id)


def _image(row: Any) -> ImageRecord:
    showing = Showing(row.showing)
    secret = showing in (Showing.HOLD, Showing.WITHHOLD)
    return of_row(
        ImageRecord,
        row,
        state=State(row.state),
        artifact=None if secret else row.artifact,
        notes=notes_from(row.notes),
        showing=showing,
        held=row.artifact if secret else None,
        ruling=_ruling(row),
    )


def origin_values(origin: Origin) -> dict[str, Any]:
    """Return the origin as values of a job's row."""
    values = asdict(origin)
    del values["parent"]
    values["policy"] = dict(origin.policy) or sa.null()
    if (parent := origin.parent) is not None:
        values |= {"parent_id": parent.job_id, "parent_index": parent.index, "descent": parent.descent}
        values |= {"parent_channel_id": parent.channel_id, "parent_message_id": parent.message_id}
    return values


def showings_from(policy: Mapping[str, Any] | None) -> Showings | None:
    """Return how a job's policy has pictures of the levels 1, 2 and 3 shown; None where it says nothing."""
    said = (policy or {}).get("flagged")
    if said is None:
        return None
    mild, explicit, extreme = map(Showing, said)
    return mild, explicit, extreme


def origin_json(origin: Origin) -> dict[str, Any]:
    """Return the origin as JSON values, without its parent and its trace."""
    return {name: value for name, value in asdict(origin).items() if name not in ("parent", "traceparent")}


def origin_from(values: Mapping[str, Any]) -> Origin:
    """Return the origin that `origin_json` wrote."""
    read = {field.name: values[field.name] for field in fields(Origin) if field.name in values}
    return Origin(**{**read, "channel_kind": ChannelKind(read.get("channel_kind", ChannelKind.PLAIN))})


def _parent(row: Any) -> Parent | None:
    if row.parent_id is None:
        return None
    return Parent(
        job_id=row.parent_id,
        descent=Descent(row.descent),
        index=row.parent_index,
        channel_id=row.parent_channel_id,
        message_id=row.parent_message_id,
    )


def _job(row: Any, of_job: Sequence[Any]) -> Job:
    # The id of its message is the job's, which knows the newest.
    made: dict[str, Any] = {"message_id": None, "parent": _parent(row), "policy": row.policy or {}}
    origin = of_row(Origin, row, channel_kind=ChannelKind(row.channel_kind), **made)
    return of_row(
        Job,
        row,
        recipe=recipe_from(row.recipe),
        origin=origin,
        state=State(row.state),
        images=tuple(_image(image) for image in of_job),
        hold=_hold(row),
        ruling=_ruling(row),
        appeal=None if row.appeal is None else Appeal(row.appeal),
    )


def hold_values(hold: Hold | None) -> dict[str, Any]:
    """Return why a job is held as values of its row."""
    return {} if hold is None else {"hold": hold.cause.value, "hold_rule": hold.rule}


def _hold(row: Any) -> Hold | None:
    return None if row.hold is None else Hold(cause=Cause(row.hold), rule=row.hold_rule)


def _ruling(row: Any) -> Ruling | None:
    return None if row.ruling is None else Ruling(outcome=Outcome(row.ruling), reason=row.ruling_reason)


def among(table: sa.Table, *states: State) -> sa.ColumnElement[bool]:
    """Return the condition for these states, to be combined with a condition that an index serves."""
    # Excluding the other states keeps databases from searching the index of states first.
    return table.c.state.not_in([state for state in State if state not in states])


async def forget_words(connection: AsyncConnection, job_id: str) -> None:
    """Delete a job's prompts, file names, interaction token and user name, and the reasons of decisions."""
    said = (await connection.execute(sa.select(jobs.c.recipe).where(jobs.c.id == job_id))).scalar_one()
    values: dict[str, Any] = {"recipe": silenced(said), "interaction_token": ""}
    values |= {"token_expires_at": 0.0, "user_name": ""}
    values |= {"hold_rule": "", "ruling_reason": ""}
    await connection.execute(sa.update(jobs).where(jobs.c.id == job_id).values(values))
    # The notes quote the cut end of a prompt.
    unsaid = {"notes": sa.null(), "ruling_reason": ""}
    await connection.execute(sa.update(images).where(images.c.job_id == job_id).values(unsaid))


def recipe_values(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe as JSON values, without those that have their default.

    So an older version can read every recipe that uses none of the newer values.
    """
    values = every_value(recipe)
    return {name: value for name, value in values.items() if getattr(recipe, name) != DEFAULTS[name]}


def is_public() -> sa.ColumnElement[bool]:
    """Return the condition for jobs of which `Origin.is_public` is true."""
    return jobs.c.private.is_(False) & jobs.c.guild_id.is_not(None)


def every_value(recipe: Recipe) -> dict[str, Any]:
    """Return the whole recipe as JSON values."""
    return {**asdict(recipe), "sampler": recipe.sampler.value}


def is_readable(values: Mapping[str, Any]) -> bool:
    """Return whether this version knows every value of a recipe, so that it paints what was asked for."""
    try:
        return values.keys() <= DEFAULTS.keys() and recipe_from(values) is not None
    except UNREADABLE:
        return False


@lru_cache(maxsize=10_000)
def tell_unreadable(kind: str, row_id: str | int, reason: str) -> None:
    """Log once in the life of the process that a row is passed over."""
    log.error(
        "the %s %s is passed over: this version cannot read its row (%s). A newer version can, or the row is "
        "damaged.",
        *(kind, row_id, reason),
    )


def recipe_from(values: Mapping[str, Any]) -> Recipe:
    """Return the recipe that `recipe_values` wrote, now or in another version; see `is_readable`.

    Raises one of UNREADABLE for values that this version does not know.
    """
    values = {name: value for name, value in values.items() if name in DEFAULTS}
    loras = tuple(Lora(**lora) for lora in values.get("loras", ()))
    variations = tuple(Variation(**variation) for variation in values.get("variations", ()))
    changed: dict[str, Any] = {
        "sampler": Sampler(values["sampler"]),
        "loras": loras,
        "variations": variations,
    }
    if (second := values.get("second_pass")) is not None:
        changed["second_pass"] = SecondPass(**second)
    if "control_type" in values:
        changed["control_type"] = ControlType(values["control_type"])
    if "guidance_interval" in values:
        changed["guidance_interval"] = tuple(values["guidance_interval"])
    return Recipe(**{**values, **changed})


def silenced(values: Any) -> dict[str, Any]:
    """Return the JSON values of any recipe without words and file names, and without unknown values."""
    said = values if isinstance(values, Mapping) else {}
    kept = {name: value for name, value in said.items() if name in DEFAULTS and name not in _WORDS}
    return {**kept, "prompt": ""}
