"""Who may do what: roles, rights, and how far a role's right reaches; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from bot.domain.channels import ChannelKind
from bot.domain.jobs import Job
from bot.store.rows.audit import OPERATOR, By


class Role(StrEnum):
    """What a person is here: by the configuration, or by permissions in the server that is looked at."""

    OPERATOR = "operator"
    MANAGER = "manager"
    MODERATOR = "moderator"
    READER = "reader"
    MEMBER = "member"


class Right(StrEnum):
    """What a view or a verb needs; everybody who is logged in has `LOGGED_IN`."""

    LOGGED_IN = "logged_in"
    OPERATIONS = "operations"
    OPERATE = "operate"
    QUEUE = "queue"
    CANCEL = "cancel"
    ORDER = "order"
    GALLERY = "gallery"
    AUDIT = "audit"
    REVIEW = "review"
    POLICIES = "policies"


class Reach(StrEnum):
    """How far a right reaches: everywhere, in the server that is looked at, or to what is one's own."""

    ALL = "all"
    SERVER = "server"
    OWN = "own"


_ALL, _SERVER, _OWN = Reach.ALL, Reach.SERVER, Reach.OWN
_OPERATOR, _READER, _MANAGER = Role.OPERATOR, Role.READER, Role.MANAGER
_MODERATOR, _MEMBER = Role.MODERATOR, Role.MEMBER
_IN_SERVER = {_MANAGER: _SERVER, _MODERATOR: _SERVER}
GRANTS: Mapping[Right, Mapping[Role, Reach]] = MappingProxyType(
    {
        Right.LOGGED_IN: dict.fromkeys(Role, _ALL),
        Right.OPERATIONS: {_OPERATOR: _ALL, _READER: _ALL},
        Right.OPERATE: {_OPERATOR: _ALL},
        Right.QUEUE: {_OPERATOR: _ALL, _READER: _ALL, **_IN_SERVER, _MEMBER: _OWN},
        Right.CANCEL: {_OPERATOR: _ALL, **_IN_SERVER, _MEMBER: _OWN},
        Right.ORDER: {_OPERATOR: _ALL, _MANAGER: _SERVER},
        Right.GALLERY: {_OPERATOR: _ALL, _READER: _ALL, **_IN_SERVER, _MEMBER: _OWN},
        Right.AUDIT: {_OPERATOR: _ALL, _READER: _ALL, **_IN_SERVER},
        Right.REVIEW: {_OPERATOR: _ALL, **_IN_SERVER},
        Right.POLICIES: {_OPERATOR: _ALL, _READER: _ALL, _MANAGER: _SERVER},
    }
)
OF_PERSONS = frozenset({Right.QUEUE, Right.GALLERY})
"""The rights of which everybody may look at their own part alone."""
OF_OWN = frozenset(right for right, reaches in GRANTS.items() if reaches.get(_MEMBER) is _OWN)
"""The rights that reach what is one's own wherever it is; the order of a queue is everybody's."""
MINE, SERVERS, YES = "me", "server", "yes"
PINNED = frozenset({"role", "here", "public", "channels", "viewer", "owns"})
"""Keys that rights alone set: in an address they mean nothing."""


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """Somebody who looks at the page: the person, 0 for the operator by a link, the role, and the server.

    `guild_id` is None for a role that holds everywhere. `channels` are those whose messages the person may
    read. `owns` tells whether the person owns the server.
    """

    user_id: int
    role: Role
    guild_id: int | None = None
    guild_name: str = ""
    name: str = ""
    owns: bool = False
    channels: frozenset[int] = field(default=frozenset(), repr=False)

    def reach(self, right: Right) -> Reach | None:
        """Return how far a right of this person reaches; None without the right."""
        return GRANTS[right].get(self.role)

    def may(self, right: Right, *, guild_id: int | None, user_id: int) -> bool:
        """Return whether the right reaches something in this server that this person asked for."""
        reach = self.reach(right)
        if reach is None or reach is Reach.ALL:
            return reach is not None
        own = user_id == self.user_id and right in OF_OWN
        return own or (reach is Reach.SERVER and guild_id == self.guild_id)

    def may_see(self, job: Job) -> bool:
        """Return whether the person may see the pictures of a job: their own, and what is public to them."""
        origin = job.origin
        if self.role is Role.OPERATOR or origin.user_id == self.user_id:
            return True
        if not origin.is_public or self.reach(Right.GALLERY) is None:
            return False
        if self.role is not Role.MEMBER:
            reads = self.reach(Right.REVIEW) is not None or not job.hides_words
            return reads and self.may(Right.GALLERY, guild_id=origin.guild_id, user_id=origin.user_id)
        here = origin.guild_id == self.guild_id and origin.channel_id in self.channels
        return here and origin.channel_kind is not ChannelKind.AGE_RESTRICTED and not job.hides_words

    def by(self, guild_id: int, reason: str = "") -> By:
        """Return who acts, for the log."""
        return By(actor_id=self.user_id, guild_id=guild_id, reason=reason)

    def pins(self, right: Right, query: Mapping[str, str]) -> dict[str, str]:
        """Return the keys of an address that a right fixes, whatever the address says.

        A view that has the right must read them: they keep it to a server, a person or what is public.
        """
        reach, whose = self.reach(right), query.get("whose", "")
        gallery = right is Right.GALLERY
        pinned = {"role": self.role.value, "viewer": str(self.user_id)} if gallery else {}
        if right in OF_PERSONS and self.user_id != OPERATOR:
            public = gallery and whose == SERVERS
            if whose == MINE or (reach is Reach.OWN and not public):
                return {**pinned, "person": str(self.user_id)}
        if right is Right.REVIEW:
            pinned = {"viewer": str(self.user_id), "owns": YES if self.owns else ""}
        if reach is not Reach.ALL:
            pinned["server"] = str(self.guild_id or 0)
        closed = OF_PERSONS if self.role is Role.READER else {Right.GALLERY}
        if right in closed and self.role is not Role.OPERATOR:
            pinned["public"] = YES
        if gallery and reach is Reach.OWN:
            pinned["channels"] = ",".join(map(str, sorted(self.channels))) or "0"
        return pinned


def rights_of(role: str) -> frozenset[str]:
    """Return the names of the rights of a role, for what a view offers."""
    return frozenset(right.value for right, reach in GRANTS.items() if Role(role) in reach)


def role_in(*, manages: bool, moderates: bool) -> Role:
    """Return the role of a member of a server with these permissions."""
    if manages:
        return Role.MANAGER
    return Role.MODERATOR if moderates else Role.MEMBER
