"""Policies of servers, channels and roles as rows of plain values; `bot.moderation.policy` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import UserMistake
from bot.store.auditing import Act, By, note
from bot.store.database import Verbs, insert
from bot.store.policy_tables import policies

MAX_POLICIES = 500  # of one server


class PolicyScope(StrEnum):
    """Whose policy it is, the nearest first; no row has the operator's and its bounds."""

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

    async def of(
        self, guild_id: int, channel_ids: Sequence[int], role_ids: Sequence[int] = ()
    ) -> list[PolicyRow]:
        """Return the policies that hold in a channel for a person with these roles.

        Those of channels come first, in the order of `channel_ids`: a thread before its channel.
        """
        async with self._database.read() as connection:
            return await policies_of(connection, guild_id, channel_ids, role_ids)

    async def all_of(self, guild_id: int) -> list[PolicyRow]:
        """Return every policy of a server, the server's first."""
        look = sa.select(policies).where(policies.c.guild_id == guild_id)
        ordered = look.order_by(policies.c.scope.desc(), policies.c.owner_id)
        async with self._database.read() as connection:
            return [_row(row) for row in await connection.execute(ordered)]

    async def put(self, scope: PolicyScope, owner_id: int, changes: Mapping[str, Any], by: By) -> PolicyRow:
        """Change some keys of a policy, None to say nothing about a key; return the policy as it is now.

        Other keys stay, also those that somebody changes at the same time. Raises UserMistake.
        """
        async with self._changing() as (connection, _):
            old = await _lock(connection, by.guild_id, scope, owner_id)
            merged = {**old, **changes}
            new = {key: value for key, value in merged.items() if value is not None}
            await _write(connection, by.guild_id, scope, owner_id, new)
            if new != old:
                await self._note(connection, scope, owner_id, by, before=old, after=new)
        return PolicyRow(scope=scope, id=owner_id, values=new)

    async def remove(self, scope: PolicyScope, owner_id: int, by: By) -> PolicyRow | None:
        """Delete a policy and return it; None where there is none."""
        gone = sa.delete(policies).where(_key(by.guild_id, scope, owner_id)).returning(*policies.c)
        async with self._changing() as (connection, _):
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


async def policies_of(
    connection: AsyncConnection, guild_id: int, channel_ids: Sequence[int], role_ids: Sequence[int]
) -> list[PolicyRow]:
    """Return what `Policies.of` returns, in a transaction of the caller's."""
    owners = {PolicyScope.CHANNEL.value: channel_ids, PolicyScope.ROLE.value: role_ids}
    given = {"guild": guild_id, **{scope: list(ids) for scope, ids in owners.items()}}
    found = [_row(row) for row in await connection.execute(_THAT_HOLD, given)]
    return sorted(found, key=lambda row: _place(row, channel_ids))


def _of_any(scope: PolicyScope) -> sa.ColumnElement[bool]:
    owners: sa.BindParameter[int] = sa.bindparam(scope.value, expanding=True)
    return (policies.c.scope == scope.value) & policies.c.owner_id.in_(owners)


# Built once: building it for each request took as long as the query.
_THAT_HOLD = sa.select(policies).where(
    policies.c.guild_id == sa.bindparam("guild"),
    sa.or_(
        (policies.c.scope == PolicyScope.SERVER.value) & (policies.c.owner_id == sa.bindparam("guild")),
        _of_any(PolicyScope.CHANNEL),
        _of_any(PolicyScope.ROLE),
    ),
)


def _place(row: PolicyRow, channel_ids: Sequence[int]) -> tuple[int, int]:
    place = channel_ids.index(row.id) if row.scope is PolicyScope.CHANNEL else row.id
    return list(PolicyScope).index(row.scope), place


def _key(guild_id: int, scope: PolicyScope, owner_id: int) -> sa.ColumnElement[bool]:
    column = policies.c
    return (column.guild_id == guild_id) & (column.scope == scope.value) & (column.owner_id == owner_id)


async def _lock(
    connection: AsyncConnection, guild_id: int, scope: PolicyScope, owner_id: int
) -> dict[str, Any]:
    """Lock the row of a policy, made where there is none, and return its values.

    Raises UserMistake `policies_full`.
    """
    key = {"guild_id": guild_id, "scope": scope.value, "owner_id": owner_id}
    add = insert(connection, policies).values(**key, values={}).on_conflict_do_nothing()
    look = sa.select(policies.c["values"]).where(_key(guild_id, scope, owner_id)).with_for_update()
    while True:  # once more where the row was removed between the two statements
        added = (await connection.execute(add)).rowcount
        row = (await connection.execute(look)).one_or_none()
        if row is None:
            continue
        if added:
            count = sa.select(sa.func.count()).select_from(policies).where(policies.c.guild_id == guild_id)
            if (await connection.scalar(count) or 0) > MAX_POLICIES:
                raise UserMistake("policies_full", limit=MAX_POLICIES)
        return dict(row[0])


async def _write(
    connection: AsyncConnection, guild_id: int, scope: PolicyScope, owner_id: int, values: Mapping[str, Any]
) -> None:
    """Store the values of a locked policy; without values its row goes."""
    mine = _key(guild_id, scope, owner_id)
    if not values:
        await connection.execute(sa.delete(policies).where(mine))
        return
    await connection.execute(sa.update(policies).where(mine).values({"values": dict(values)}))


def _row(row: Any) -> PolicyRow:
    named = row._mapping
    return PolicyRow(scope=PolicyScope(named["scope"]), id=named["owner_id"], values=dict(named["values"]))
