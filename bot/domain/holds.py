"""Why pictures are held for review, and what moderators decided; no I/O.

A held picture is finished, and shown to moderators alone until one of them decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MOST_REASON = 300  # characters of a reason that moderators give


class Cause(StrEnum):
    """Why pictures are held: the review mode of a place, a rule, a session, a picture rule, or reports."""

    MODE = "mode"
    RULE = "rule"
    SESSION = "session"
    PICTURE = "picture"
    REPORTS = "reports"


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Why the pictures of a job are held; `rule` is the name of the rule, where there is one."""

    cause: Cause
    rule: str = ""


class Outcome(StrEnum):
    """How a review ended: a moderator decided, its time ran out, or its subject was deleted.

    A declined appeal leaves things as they are.
    """

    SHOWN = "shown"
    SPOILER = "spoiler"
    REJECTED = "rejected"
    EXPIRED = "expired"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"

    @property
    def shows(self) -> bool:
        """Whether the pictures are shown."""
        return self in (Outcome.SHOWN, Outcome.SPOILER)


class Appeal(StrEnum):
    """The state of the one appeal that a job may have about its pictures."""

    OPEN = "open"
    ACCEPTED = "accepted"
    DECLINED = "declined"
    EXPIRED = "expired"


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """A decision on held pictures, and the moderator's reason, which the person reads."""

    outcome: Outcome
    reason: str = ""
