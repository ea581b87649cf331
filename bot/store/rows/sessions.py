"""Group sessions as plain data, and the rows that they are read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.store.database.database import of_row
from bot.store.rows.recipes import UNREADABLE, tell_unreadable
from bot.store.tables.sessions import session_timers, sessions


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
