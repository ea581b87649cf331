"""What servers say, kept in memory while it holds: compiled rules, and policies by their owners."""

from __future__ import annotations

from collections import OrderedDict

from bot.moderation.ready import ReadyServer
from bot.store import Store
from bot.store.standing import Place, ServerSays, Standing

MOST_SERVERS = 5000
MOST_PARTS = 60_000  # policies, words and phrases; compiled, a word takes some 4 KiB


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
