"""What holds for a person in a channel: restrictions, policies and rules on words, read together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.store.automod import is_applied
from bot.store.database import Verbs
from bot.store.moderation import Restriction, restrictions_of
from bot.store.policies import PolicyRow, policies_of
from bot.store.prompt_rules import PromptRule, rules_of


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
            return Standing(
                restrictions=restrictions,
                policies=await policies_of(connection, place.guild_id, place.channel_ids, place.role_ids),
                rules=await rules_of(connection, place.guild_id),
                automod=await is_applied(connection, place.guild_id),
            )
