"""What holds for a person in a channel: restrictions, policies and rules on words, read together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.automod_tables import automod
from bot.store.database import Verbs
from bot.store.moderation import Restriction, restrictions_of
from bot.store.policies import PolicyRow, policies_of
from bot.store.prompt_rules import PromptRule, rule_from
from bot.store.tables import prompt_rules

_SERVER = sa.bindparam("guild", type_=sa.BigInteger)
# One row for each rule, and one without a rule where there is none; each with the AutoMod switch.
_WORDS = (
    sa.select(automod.c.applied, prompt_rules)
    .select_from(
        sa.select(sa.literal(1).label("one"))
        .subquery()
        .outerjoin(automod, automod.c.guild_id == _SERVER)
        .outerjoin(prompt_rules, prompt_rules.c.guild_id == _SERVER)
    )
    .order_by(prompt_rules.c.key)
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A person with their roles in a channel; a thread comes before its channel."""

    user_id: int
    guild_id: int | None
    channel_ids: tuple[int, ...] = ()
    role_ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What holds for a person in a channel, as it is stored.

    `rules` are those of the whole server about words; `automod` says whether Discord's AutoMod rules apply.
    """

    restrictions: Sequence[Restriction] = ()
    policies: Sequence[PolicyRow] = ()
    rules: Sequence[PromptRule] = ()
    automod: bool = False


class Standings(Verbs):
    """The verb that every request begins with."""

    async def of(self, place: Place) -> Standing:
        """Return what holds for a person in a channel; in a direct message there are restrictions alone."""
        async with self._database.read() as connection:
            restrictions = await restrictions_of(
                connection,
                user_id=place.user_id,
                channel_id=place.channel_ids[0] if place.channel_ids else None,
                guild_id=place.guild_id,
                now=self._clock(),
            )
            if place.guild_id is None:
                return Standing(restrictions=restrictions)
            rules, applied = await _words_of(connection, place.guild_id)
            return Standing(
                restrictions=restrictions,
                policies=await policies_of(connection, place.guild_id, place.channel_ids, place.role_ids),
                rules=rules,
                automod=applied,
            )


async def _words_of(connection: AsyncConnection, guild_id: int) -> tuple[list[PromptRule], bool]:
    """Return the rules of a server by name, and whether Discord's AutoMod rules are applied."""
    rows = (await connection.execute(_WORDS, {"guild": guild_id})).all()
    return [rule_from(row) for row in rows if row.key is not None], rows[0].applied is not False
