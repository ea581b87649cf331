"""What servers say, ready for any number of requests: compiled rules, and policies by their owners.

It is kept in memory while it holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from bot.moderation.policy import Effective, Said, said_by
from bot.moderation.rules import Judge
from bot.quotas import Quota
from bot.store import Store
from bot.store.policies import PolicyRow, PolicyScope
from bot.store.standing import Place, ServerSays, Standing

MOST_SERVERS = 5000
MOST_PARTS = 60_000  # policies, words and phrases; compiled, a word takes some 4 KiB
MOST_KEPT = 100  # meanings of policies, of one server


@dataclass(frozen=True, kw_only=True)
class Ruled:
    """What policies mean for a person: the stored ones that hold, their meaning, and the person's quotas."""

    said: tuple[Said, ...]
    effective: Effective
    quotas: tuple[Quota, ...]


class ReadyServer:
    """The policies of a server by their owners, its rules on words, and whether its AutoMod rules apply."""

    def __init__(self, server: ServerSays) -> None:
        self.revision = server.revision
        self.judge = Judge(server.rules)
        self.automod = server.automod
        self._rows = {(row.scope, row.id): row for row in server.policies}
        self._ruled: OrderedDict[tuple[object, ...], Ruled] = OrderedDict()

    def __len__(self) -> int:
        """Return how many policies, words and phrases it has."""
        return len(self._rows) + len(self.judge)

    def ruled(self, place: Place, given: Hashable, decide: Callable[[tuple[Said, ...]], Ruled]) -> Ruled:
        """Return what `decide` makes of the policies that hold for a person.

        It is kept for persons for whom the same policies hold; `given` is all else that `decide` uses. Those
        of channels come first, a thread's before its channel's, then those of roles.
        """
        rows = list(self._holding(place))
        key = (given, *((row.scope, row.id) for row in rows))
        found = self._ruled.get(key)
        if found is None:
            found = self._ruled[key] = decide(tuple(map(said_by, rows)))
            if len(self._ruled) > MOST_KEPT:
                self._ruled.popitem(last=False)
        else:
            self._ruled.move_to_end(key)
        return found

    def _holding(self, place: Place) -> Iterator[PolicyRow]:
        if not self._rows:
            return
        owners: Sequence[tuple[PolicyScope, int]] = [
            *((PolicyScope.CHANNEL, channel_id) for channel_id in place.channel_ids),
            *((PolicyScope.ROLE, role_id) for role_id in sorted(place.role_ids)),
            (PolicyScope.SERVER, place.guild_id or 0),
        ]
        yield from (self._rows[owner] for owner in owners if owner in self._rows)


class ServerCache:
    """The servers that asked for pictures lately.

    Every request reads the revision of its server, and what is kept under another revision is read again: a
    change holds for the next request at every front.
    """

    def __init__(self, *, most_servers: int = MOST_SERVERS, most_parts: int = MOST_PARTS) -> None:
        self._most_servers, self._most_parts = most_servers, most_parts
        self._servers: OrderedDict[int, ReadyServer] = OrderedDict()
        self._parts = 0

    async def look(self, store: Store, place: Place) -> tuple[Standing, ReadyServer]:
        """Return what holds for a person in a channel, and what the server says.

        Raises StoreUnavailable.
        """
        standing = await store.standings.of(place)
        guild_id = place.guild_id or 0
        kept = self._servers.get(guild_id)
        if kept is not None and kept.revision == standing.revision:
            self._servers.move_to_end(guild_id)
            return standing, kept
        # A server without a revision says nothing.
        said = ServerSays() if standing.revision is None else await store.standings.said_by(guild_id)
        kept = self._servers.get(guild_id)
        if kept is None or kept.revision != said.revision:  # no request read it meanwhile
            kept = ReadyServer(said)
            self._keep(guild_id, kept)
        return standing, kept

    def _keep(self, guild_id: int, ready: ReadyServer) -> None:
        self._forget(guild_id)
        self._servers[guild_id] = ready
        self._parts += len(ready)
        while len(self._servers) > 1 and (
            len(self._servers) > self._most_servers or self._parts > self._most_parts
        ):
            self._forget(next(iter(self._servers)))

    def _forget(self, guild_id: int) -> None:
        if (gone := self._servers.pop(guild_id, None)) is not None:
            self._parts -= len(gone)
