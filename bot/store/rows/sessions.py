"""Group sessions as plain data, the rows that they are read from, and the admission of a request to them.

In a session a person has a separate place in the fair order: `session_tags` keeps the last tag there, as
`last_tags` does outside sessions. See `bot.store.rows.fair_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.domain.holds import Cause, Hold
from bot.domain.jobs import Origin, Showing, State
from bot.store.database.database import count_of, insert, of_row
from bot.store.rows import fair_order
from bot.store.rows.jobs import UNREADABLE, tell_unreadable
from bot.store.tables.queue import images, last_tags
from bot.store.tables.sessions import session_jobs, session_tags, session_timers, sessions

REVIEWED = Hold(cause=Cause.SESSION)
UNCHARGED = (State.FAILED, State.CANCELLED)


class Phase(StrEnum):
    """The phase of a session.

    painting ──► collecting ──► voting ──► resting ──► painting, the next round
        └──────────┴── closing ──► closed
    """

    PAINTING = "painting"
    COLLECTING = "collecting"  # the round is over, and its last pictures are painted
    VOTING = "voting"
    RESTING = "resting"  # until the host begins the next round
    CLOSING = "closing"  # as collecting, and then the session ends
    CLOSED = "closed"


class TimerKind(StrEnum):
    """What ends when a timer is due: a round, the collecting of its pictures, a vote, the session."""

    ROUND = "round"
    COLLECT = "collect"
    VOTE = "vote"
    SESSION = "session"


class PostKind(StrEnum):
    """The kind of a message that is sent once: numbered pictures, results, an archive, an announcement.

    A closed ballot is the edit of a sheet whose vote has ended. The first letters differ.
    """

    SHEET = "sheet"
    CLOSED_BALLOT = "closed ballot"
    RESULTS = "results"
    ARCHIVE = "archive"
    BEGINNING = "beginning"  # of a round after the first
    PAUSE = "pause"
    RESUMPTION = "going on"
    EXTENSION = "more time"
    END = "end"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the host has decided. Times are in seconds.

    `style_prompt` and `style_negative` are the texts of the style when the session was opened. Every word of
    `required` must be in a prompt. Without `round_seconds` a round ends when the host says so, and without
    `vote_seconds` there is no vote. With a `role_id` only its members take part.
    """

    theme: str = ""
    style: str = ""
    style_prompt: str = ""
    style_negative: str = ""
    required: tuple[str, ...] = ()
    round_seconds: float | None = None
    vote_seconds: float = 0.0
    session_seconds: float
    quota: int
    role_id: int | None = None
    review: bool = False


@dataclass(frozen=True, kw_only=True)
class Timer:
    """When something is due, in seconds since the epoch, or the seconds left in a pause."""

    due_at: float | None
    left: float | None = None


@dataclass(frozen=True, kw_only=True)
class GroupSession:
    """One session. `keeper_token` is that of the front that shows it."""

    id: str
    guild_id: int
    channel_id: int
    host_id: int
    locale: str
    plan: Plan
    phase: Phase
    round: int
    paused: bool
    opened_at: float
    collect_until: float | None
    closed_at: float | None
    board_id: int | None
    boards: int
    keeper_token: int
    timers: Mapping[TimerKind, Timer] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Post:
    """A message that is sent once; `page` counts from 1, and `round` is 0 for the whole session."""

    id: int
    session_id: str
    kind: PostKind
    round: int
    page: int
    ballot: bool


def round_over(phase: Phase) -> UserMistake:
    """Return why a session takes no request in this phase, in which it does not paint."""
    return UserMistake("session_closing" if phase is Phase.CLOSING else "session_round_over")


def plan_values(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON values."""
    return {**asdict(plan), "required": list(plan.required)}


def plan_from(values: Mapping[str, Any]) -> Plan:
    """Return the plan that `plan_values` wrote."""
    return Plan(**{**values, "required": tuple(values["required"])})


async def lock_session(connection: AsyncConnection, session_id: str) -> GroupSession:
    """Lock a session's row and return the session; raises UserMistake `session_gone`.

    This lock comes before those of jobs, persons and rows that belong to the session. It does not lock
    the key, which a later change of such a row checks.
    """
    row = (
        await connection.execute(
            sa.select(sessions).where(sessions.c.id == session_id).with_for_update(key_share=True)
        )
    ).one_or_none()
    if row is None:
        raise UserMistake("session_gone")
    return await with_its_timers(connection, row)


async def with_its_timers(connection: AsyncConnection, row: Any) -> GroupSession:
    """Return the session of a row; raises UserMistake `newer_request` where this version cannot read it."""
    if found := await with_timers(connection, [row]):
        return found[0]
    raise UserMistake("newer_request")


async def with_timers(connection: AsyncConnection, rows: Sequence[Any]) -> list[GroupSession]:
    """Return the sessions of these rows, without those that this version cannot read."""
    timers: dict[str, list[Any]] = {row.id: [] for row in rows}
    look = sa.select(session_timers).where(session_timers.c.session_id.in_(timers))
    for timer in await connection.execute(look):
        timers[timer.session_id].append(timer)
    found = []
    for row in rows:
        try:
            found.append(_session(row, timers[row.id]))
        except UNREADABLE as error:
            tell_unreadable("group session", row.id, str(error))
    return found


def _session(row: Any, timers: Sequence[Any]) -> GroupSession:
    return of_row(
        GroupSession,
        row,
        plan=plan_from(row.plan),
        phase=Phase(row.phase),
        paused=row.paused_at is not None,
        timers={TimerKind(each.kind): Timer(due_at=each.due_at, left=each.left) for each in timers},
    )


@dataclass(frozen=True, kw_only=True)
class Entrance:
    """The session and the round that a new job belongs to; `last_tag` is that of its person there.

    With `hold` its pictures are held for review.
    """

    session_id: str
    round: int
    user_id: int
    last_tag: float
    hold: Hold | None


async def enter(connection: AsyncConnection, row: Any, origin: Origin, *, pictures: int) -> Entrance:
    """Return the entrance into the session of `row`, which is locked for reading.

    Call it after `wait_for_turn`: requests of one person are decided one at a time. Raises UserMistake
    `session_private`, `session_closing`, `session_round_over`, `session_paused`, `session_paused_host`,
    `session_quota` or `session_quota_used`.
    """
    if origin.private:
        raise UserMistake("session_private")
    if row.phase != Phase.PAINTING.value:
        raise round_over(Phase(row.phase))
    if row.paused_at is not None:
        raise UserMistake("session_paused_host" if origin.user_id == row.host_id else "session_paused")
    plan = plan_from(row.plan)
    used = await pictures_of(connection, row.id, row.round, origin.user_id)
    if used >= plan.quota:
        raise UserMistake("session_quota_used", limit=plan.quota)
    if used + pictures > plan.quota:
        raise UserMistake("session_quota", limit=plan.quota, left=plan.quota - used)
    mine = {"session_id": row.id, "user_id": origin.user_id}
    tag = insert(connection, session_tags).values(**mine, tag=0.0)
    same = tag.on_conflict_do_update(
        index_elements=[session_tags.c.session_id, session_tags.c.user_id], set_={"tag": session_tags.c.tag}
    )
    last_tag = await connection.scalar(same.returning(session_tags.c.tag))
    return Entrance(**mine, round=row.round, last_tag=last_tag or 0.0, hold=REVIEWED if plan.review else None)


async def pictures_of(connection: AsyncConnection, session_id: str, round_: int, user_id: int) -> int:
    """Count the pictures of a person's quota that are used: all but failed, cancelled and withheld ones."""
    mine = (session_jobs.c.session_id == session_id) & (session_jobs.c.round == round_)
    mine &= session_jobs.c.user_id == user_id
    counts = images.c.state.not_in(UNCHARGED) & (images.c.showing != Showing.WITHHOLD)
    here = session_jobs.join(images, images.c.job_id == session_jobs.c.job_id)
    return await count_of(connection, here, mine, counts)


async def join_session(
    connection: AsyncConnection, entrance: Entrance, job_id: str, *, last_tag: float
) -> None:
    """Add a stored job to its session, and move its person's place there."""
    row = {"session_id": entrance.session_id, "round": entrance.round, "user_id": entrance.user_id}
    await connection.execute(sa.insert(session_jobs).values(**row, job_id=job_id))
    mine = (session_tags.c.session_id == entrance.session_id) & (session_tags.c.user_id == entrance.user_id)
    await connection.execute(sa.update(session_tags).where(mine).values(tag=last_tag))


async def refund_in_session(connection: AsyncConnection, job_id: str, shares: Iterable[float]) -> bool:
    """Subtract the shares of a job's images that never ran from its person's last tag in a session.

    Returns whether the job belongs to a session.
    """
    of_job = sa.select(session_jobs.c.session_id, session_jobs.c.user_id)
    row = (await connection.execute(of_job.where(session_jobs.c.job_id == job_id))).one_or_none()
    if row is None:
        return False
    # The lock order of requests: a person's own row comes before the row in a session.
    own = sa.select(last_tags.c.user_id).where(last_tags.c.user_id == row.user_id)
    await connection.execute(own.with_for_update())
    mine = (session_tags.c.session_id == row.session_id) & (session_tags.c.user_id == row.user_id)
    tag = session_tags.c.tag - fair_order.refund(shares)
    await connection.execute(sa.update(session_tags).where(mine).values(tag=tag))
    return True


async def lock_channel_session(connection: AsyncConnection, channel_id: int) -> None:
    """Lock the open session of a channel for reading: sessions, jobs, persons is the order of all locks."""
    look = sa.select(sessions.c.id).where(sessions.c.open_channel_id == channel_id)
    await connection.execute(look.with_for_update(read=True))


async def wait_for_turn(connection: AsyncConnection, user_id: int) -> None:
    """Lock the person's row, so that their requests are stored one at a time and each counts the others."""
    mine = insert(connection, last_tags).values(user_id=user_id, tag=0.0)
    # One statement makes or locks the row: between two statements the row can be deleted.
    locked = mine.on_conflict_do_update(index_elements=[last_tags.c.user_id], set_={"tag": last_tags.c.tag})
    await connection.execute(locked)
