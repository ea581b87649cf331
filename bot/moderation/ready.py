"""What a server says, ready for any number of requests; pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from bot.moderation.policy import Effective, Said, said_by
from bot.moderation.rules import Judge
from bot.quotas import Quota
from bot.store.policies import PolicyRow, PolicyScope
from bot.store.standing import Place, ServerSays

MOST_KEPT = 100


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

        It is kept for persons for whom the same policies hold; `given` is all else that `decide` uses. Those of channels come first, a thread's
        before its channel's, then those of roles.
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
