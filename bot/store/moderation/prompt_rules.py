"""A server's rules about the words of prompts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.store.database.database import Verbs, insert
from bot.store.library.named import key_of
from bot.store.rows.audit import Act, By, note
from bot.store.rows.revisions import hold_server
from bot.store.tables.queue import prompt_rules

MAX_RULES = 50  # of one server


class Action(StrEnum):
    """What a rule does with a prompt that has its terms."""

    REFUSE = "refuse"
    ALLOW = "allow"
    HOLD = "hold"


@dataclass(frozen=True, kw_only=True)
class PromptRule:
    """One rule of a server. It holds in its channel and the channel's threads; without one, everywhere.

    A rule refuses a prompt that has one of its `terms`, or holds its pictures for review. With `also`, the
    prompt must have one of those terms too. No other rule sees the terms of a rule that allows.
    """

    name: str
    action: Action = Action.REFUSE
    terms: tuple[str, ...]
    also: tuple[str, ...] = ()
    channel_id: int | None = None


class PromptRules(Verbs):
    """The verbs of rules; each that changes something adds its row to the audit log."""

    async def of(self, guild_id: int) -> list[PromptRule]:
        """Return the rules of a server, by name."""
        async with self._database.read() as connection:
            return await rules_of(connection, guild_id)

    async def put(self, rule: PromptRule, by: By) -> None:
        """Store a rule; it replaces a rule of the same name. Raises UserMistake `rules_full`."""
        column, key = prompt_rules.c, key_of(rule.name)
        others = (column.guild_id == by.guild_id) & (column.key != key)
        values = {"name": rule.name, **_facts(rule)}
        async with self._changing() as (connection, _):
            await hold_server(connection, by.guild_id)
            count = await connection.scalar(
                sa.select(sa.func.count()).select_from(prompt_rules).where(others)
            )
            if (count or 0) >= MAX_RULES:
                raise UserMistake("rules_full", limit=MAX_RULES)
            old = await _find(connection, by.guild_id, key)
            await connection.execute(
                insert(connection, prompt_rules)
                .values(guild_id=by.guild_id, key=key, **values)
                .on_conflict_do_update(index_elements=[column.guild_id, column.key], set_=values)
            )
            await self._note(connection, by, before=old, after=rule)

    async def remove(self, name: str, by: By) -> PromptRule | None:
        """Delete the rule of this name and return it; None where there is none."""
        key = key_of(name)
        async with self._changing() as (connection, _):
            await hold_server(connection, by.guild_id)
            old = await _find(connection, by.guild_id, key)
            if old is None:
                return None
            gone = sa.delete(prompt_rules).where(
                prompt_rules.c.guild_id == by.guild_id, prompt_rules.c.key == key
            )
            await connection.execute(gone)
            await self._note(connection, by, before=old, after=None)
        return old

    async def _note(
        self,
        connection: AsyncConnection,
        by: By,
        *,
        before: PromptRule | None,
        after: PromptRule | None,
    ) -> None:
        was, will = _logged(before), _logged(after)
        await note(connection, Act.RULE, by, at=self._clock(), before=was, after=will)


async def rules_of(connection: AsyncConnection, guild_id: int) -> list[PromptRule]:
    """Return the rules of a server, by name."""
    look = sa.select(prompt_rules).where(prompt_rules.c.guild_id == guild_id)
    return [rule_from(row) for row in await connection.execute(look.order_by(prompt_rules.c.key))]


async def _find(connection: AsyncConnection, guild_id: int, key: str) -> PromptRule | None:
    look = sa.select(prompt_rules).where(prompt_rules.c.guild_id == guild_id, prompt_rules.c.key == key)
    row = (await connection.execute(look)).one_or_none()
    return None if row is None else rule_from(row)


def rule_from(row: Any) -> PromptRule:
    """Return the rule of a row."""
    return PromptRule(
        name=row.name,
        action=Action(row.action),
        terms=tuple(row.terms),
        also=tuple(row.also),
        channel_id=row.channel_id,
    )


def _facts(rule: PromptRule) -> dict[str, Any]:
    return {
        "action": rule.action.value,
        "terms": list(rule.terms),
        "also": list(rule.also),
        "channel_id": rule.channel_id,
    }


def _logged(rule: PromptRule | None) -> dict[str, Any] | None:
    return None if rule is None else {"name": rule.name, **_facts(rule)}
