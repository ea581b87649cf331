"""What holds for a person in a channel: restrictions, and what else to look at; read for every request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from bot.store.database.database import Verbs, of_row
from bot.store.moderation.appeals import UNTOLD
from bot.store.moderation.automod import is_applied
from bot.store.moderation.policies import PolicyRow, policies_of
from bot.store.moderation.prompt_rules import PromptRule, PromptRules
from bot.store.people.preferences import Scope
from bot.store.rows.restrictions import RESTRICTS, Restriction, restriction_from
from bot.store.tables.policies import server_revisions
from bot.store.tables.queue import preferences, restrictions
from bot.store.tables.reviews import reviews
from bot.store.tables.sessions import sessions

_GUILD, _CHANNEL, _USER = (sa.bindparam(name, type_=sa.BigInteger) for name in ("guild", "channel", "user"))
_REVISION = (
    sa.select(server_revisions.c.revision).where(server_revisions.c.guild_id == _GUILD).scalar_subquery()
)
_IN_SESSION = sa.exists().where(sessions.c.open_channel_id == _CHANNEL)
_HAS_ANSWERS = sa.exists().where(reviews.c.user_id == _USER, UNTOLD)
_HAS_PREFERENCES = sa.exists().where(
    sa.or_(
        *(
            (preferences.c.scope == scope.value) & (preferences.c.owner_id == owner)
            for scope, owner in ((Scope.ME, _USER), (Scope.CHANNEL, _CHANNEL), (Scope.SERVER, _GUILD))
        )
    )
)
# One row for each restriction, and one without where there is none; each with all the rest. Built once:
# building it for each request took as long as the query.
_LOOK = sa.select(
    _REVISION.label("revision"),
    _IN_SESSION.label("in_session"),
    _HAS_ANSWERS.label("has_answers"),
    _HAS_PREFERENCES.label("has_preferences"),
    restrictions,
).select_from(sa.select(sa.literal_column("1").label("one")).subquery().outerjoin(restrictions, RESTRICTS))


@dataclass(frozen=True, kw_only=True)
class Requester:
    """A person with their roles in a channel; a thread comes before its channel."""

    user_id: int
    guild_id: int | None
    channel_ids: tuple[int, ...] = ()
    role_ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StandingRow:
    """The restrictions that hold for a person in a channel, and the revision of what the server says.

    The revision is None in a direct message, and for a server that says nothing. `in_session` says whether
    the channel has an open group session, `has_answers` whether the person must be told of an appeal, and
    `has_preferences` whether preferences may hold: most requests need no look at any of these.
    """

    restrictions: Sequence[Restriction] = ()
    revision: int | None = None
    in_session: bool = False
    has_answers: bool = False
    has_preferences: bool = False


@dataclass(frozen=True, kw_only=True)
class ServerSays:
    """What a server says to all requests: its policies, and its rules on words by name.

    `automod` says whether Discord's AutoMod rules apply. Equal revisions of one server mean equal contents.
    """

    revision: int | None = None
    policies: Sequence[PolicyRow] = ()
    rules: Sequence[PromptRule] = ()
    automod: bool = True


class Standings(Verbs):
    """The verbs that every request begins with."""

    async def of(self, requester: Requester) -> StandingRow:
        """Return what holds for a person in a channel, read by one statement."""
        channel_id, *parents = *requester.channel_ids, 0, 0
        values = {"guild": requester.guild_id or 0, "user": requester.user_id, "now": self._clock()}
        rows = await self._database.look(_LOOK, {**values, "channel": channel_id, "parent": parents[0]})
        found = [restriction_from(row) for row in rows if row.kind is not None]
        return of_row(StandingRow, rows[0], restrictions=found)

    async def said_by(self, guild_id: int) -> ServerSays:
        """Return what a server says, with its revision, from one snapshot."""
        revision = sa.select(server_revisions.c.revision).where(server_revisions.c.guild_id == guild_id)
        async with self._database.read() as connection:
            return ServerSays(
                revision=await connection.scalar(revision),
                policies=await policies_of(connection, guild_id),
                rules=await PromptRules.all_of(connection, guild_id),
                automod=await is_applied(connection, guild_id),
            )
