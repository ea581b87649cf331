"""The audit log: who did what to whom, when and why. The database only lets a person's id be erased."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.rows.jobs import UNREADABLE, tell_unreadable
from bot.store.tables.queue import audit, restrictions

OPERATOR = NOBODY = EVERYWHERE = 0


class Act(StrEnum):
    """An act of moderators or the operator."""

    BLOCK = "block"
    UNBLOCK = "unblock"
    PAUSE = "pause"
    RESUME = "resume"
    CLEAR = "clear"
    RULE = "rule"
    POLICY = "policy"
    KNOWN = "known"
    DELETE = "delete"
    CANCEL = "cancel"
    ADVANCE = "advance"
    RETRY = "retry"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    SESSION = "session"
    APPROVE = "approve"
    COVER = "cover"
    REJECT = "reject"
    EXPIRE = "expire"
    HIDE = "hide"
    DECLINE = "decline"
    REVIEW = "review"
    STYLE = "style"
    LIST = "list"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row of the log. `before` and `after` are what the act replaced and what has held since.

    Both name no person. `actor_id` is 0 for the operator, `subject_id` 0 for nobody, and a negative number
    stands for a person who had everything of theirs deleted. `guild_id` is 0 for an act in every server.
    """

    id: int
    at: float
    guild_id: int
    actor_id: int
    subject_id: int
    act: Act
    reason: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class By:
    """The person who acts, the server, and the reason."""

    actor_id: int
    guild_id: int
    reason: str = ""


async def note(
    connection: AsyncConnection,
    act: Act,
    by: By,
    *,
    at: float,
    subject_id: int = NOBODY,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Add a row to the log, in the transaction of the act."""
    values: dict[str, Any] = {"at": at, "act": act.value, "subject_id": subject_id}
    values |= {"guild_id": by.guild_id, "actor_id": by.actor_id, "reason": by.reason}
    values |= {"before": _json(before), "after": _json(after)}
    await connection.execute(sa.insert(audit).values(values))


def _json(facts: Mapping[str, Any] | None) -> Any:
    return sa.null() if facts is None else dict(facts)


def entries_of(rows: Iterable[Any]) -> dict[int, Entry]:
    """Return the rows as plain data, by id, without acts of a newer version."""
    found = {}
    for row in rows:
        try:
            found[row.id] = Entry(**{**row._mapping, "act": Act(row.act)})
        except UNREADABLE as error:
            tell_unreadable("audit entry", row.id, str(error))
    return found


def erased_number() -> int:
    """Return a negative number that reveals nothing about the person that it replaces."""
    return -1 - secrets.randbelow(2**40)


async def replace_person(connection: AsyncConnection, user_id: int, number: int) -> None:
    """Write `number` for a person in the log, and for the moderator of a block or a pause."""
    for column in (audit.c.actor_id, audit.c.subject_id, restrictions.c.by):
        named = sa.update(column.table).where(column == user_id)
        await connection.execute(named.values({column: number}))
