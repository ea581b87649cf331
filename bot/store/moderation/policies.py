"""Policies of servers, channels and roles as rows of plain values; `bot.moderation.policy` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.store.database.database import Verbs, count_of, put
from bot.store.rows.audit import Act, By, note
from bot.store.rows.revisions import hold_server
from bot.store.tables.policies import policies

MAX_POLICIES = 500  # of one server


class PolicyScope(StrEnum):
    """The owner of a policy, the nearest first; the operator's policy and its bounds are not in rows."""

    CHANNEL = "channel"
    ROLE = "role"
    SERVER = "server"
    OPERATOR = "operator"
    BOUND = "bound"


@dataclass(frozen=True, kw_only=True)
class PolicyRow:
    """A stored policy; `id` is that of the channel, the role or the server."""

    scope: PolicyScope
    id: int
    values: Mapping[str, Any]


class Policies(Verbs):
    """The verbs of policies; each that changes something adds its row to the audit log."""

    async def all_of(self, guild_id: int) -> list[PolicyRow]:
        """Return every policy of a server, the server's first."""
        async with self._database.read() as connection:
            return await policies_of(connection, guild_id)

    async def put(self, scope: PolicyScope, owner_id: int, changes: Mapping[str, Any], by: By) -> PolicyRow:
        """Change some keys of a policy, None to say nothing about a key; return the policy as it is now.

        Other keys stay, also those that somebody changes meanwhile. Raises UserMistake `policies_full`.
        """
        async with self._database.write() as connection:
            await hold_server(connection, by.guild_id)
            old = await _values_of(connection, by.guild_id, scope, owner_id)
            merged = {**old, **changes}
            new = {key: value for key, value in merged.items() if value is not None}
            if new:
                await _check_room(connection, by.guild_id, scope, owner_id)
            await _write(connection, by.guild_id, scope, owner_id, new)
            if new != old:
                await self._note(connection, scope, owner_id, by, before=old, after=new)
        return PolicyRow(scope=scope, id=owner_id, values=new)

    async def remove(self, scope: PolicyScope, owner_id: int, by: By) -> PolicyRow | None:
        """Delete a policy and return it; None where there is none."""
        gone = sa.delete(policies).where(_key(by.guild_id, scope, owner_id)).returning(*policies.c)
        async with self._database.write() as connection:
            await hold_server(connection, by.guild_id)
            row = (await connection.execute(gone)).one_or_none()
            if row is None:
                return None
            old = _row(row)
            await self._note(connection, scope, owner_id, by, before=old.values, after={})
        return old

    async def _note(
        self,
        connection: AsyncConnection,
        scope: PolicyScope,
        owner_id: int,
        by: By,
        *,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
    ) -> None:
        """Log the keys that have changed."""
        changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        where = {"scope": scope.value, "id": owner_id}
        was, will = (
            {**where, **{key: values[key] for key in changed if key in values}} for values in (before, after)
        )
        await note(connection, Act.POLICY, by, at=self._clock(), before=was, after=will)


async def policies_of(connection: AsyncConnection, guild_id: int) -> list[PolicyRow]:
    """Return every policy of a server, the server's first."""
    look = sa.select(policies).where(policies.c.guild_id == guild_id)
    ordered = look.order_by(policies.c.scope.desc(), policies.c.owner_id)
    return [_row(row) for row in await connection.execute(ordered)]


def _key(guild_id: int, scope: PolicyScope, owner_id: int) -> sa.ColumnElement[bool]:
    column = policies.c
    return (column.guild_id == guild_id) & (column.scope == scope.value) & (column.owner_id == owner_id)


async def _values_of(
    connection: AsyncConnection, guild_id: int, scope: PolicyScope, owner_id: int
) -> dict[str, Any]:
    """Return the values of a policy; none where there is no such policy."""
    look = sa.select(policies.c["values"]).where(_key(guild_id, scope, owner_id))
    return dict(await connection.scalar(look) or {})


async def _check_room(connection: AsyncConnection, guild_id: int, scope: PolicyScope, owner_id: int) -> None:
    """Raise UserMistake `policies_full` where a server has MAX_POLICIES besides this one."""
    others = (policies.c.guild_id == guild_id) & ~_key(guild_id, scope, owner_id)
    if await count_of(connection, policies, others) >= MAX_POLICIES:
        raise UserMistake("policies_full", limit=MAX_POLICIES)


async def _write(
    connection: AsyncConnection, guild_id: int, scope: PolicyScope, owner_id: int, values: Mapping[str, Any]
) -> None:
    """Store the values of a policy; without values its row goes."""
    if not values:
        await connection.execute(sa.delete(policies).where(_key(guild_id, scope, owner_id)))
        return
    key = {"guild_id": guild_id, "scope": scope.value, "owner_id": owner_id}
    await put(connection, policies, key, {"values": dict(values)})


def _row(row: Any) -> PolicyRow:
    """Return the policy of a row."""
    named = row._mapping
    return PolicyRow(scope=PolicyScope(named["scope"]), id=named["owner_id"], values=dict(named["values"]))
