"""The kinds of Discord's channels, and the keys that say how flagged pictures are shown in each; no I/O."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Any


class ChannelKind(StrEnum):
    """Whom Discord shows a channel: everybody, members once they have opened it, or adults alone.

    A thread has the kind of its channel.
    """

    PLAIN = "plain"
    SPOILER = "spoiler"
    AGE_RESTRICTED = "age_restricted"


FLAGGED_KEYS = MappingProxyType(
    {
        ChannelKind.PLAIN: "flagged",
        ChannelKind.SPOILER: "flagged_spoiler",
        ChannelKind.AGE_RESTRICTED: "flagged_age_restricted",
    }
)
"""The key, of a model or a policy, for flagged pictures in channels of each kind."""


def flagged_in(kind: ChannelKind, source: object) -> Any:
    """Return the value of a model's configuration, or a policy, for flagged pictures in channels of a kind.

    A source without a value for spoiler channels has them treated as plain channels.
    """
    value = getattr(source, FLAGGED_KEYS[kind])
    return flagged_in(ChannelKind.PLAIN, source) if kind is ChannelKind.SPOILER and not value else value
