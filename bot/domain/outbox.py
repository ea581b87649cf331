"""Messages that must reach Discord once, as the front that sends one has claimed it; no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outgoing(StrEnum):
    """What a message shows: a job's result, a review for moderators, or a part of a group session."""

    RESULT = "result"
    REVIEW = "review"
    POST = "post"


@dataclass(frozen=True, kw_only=True)
class Due:
    """A claimed message; `attempts` is how many attempts have failed.

    Every verb after the claim carries `fencing_token`.
    """

    id: int
    attempts: int
    fencing_token: int

    @property
    def tried_before(self) -> bool:
        """Whether an earlier attempt may have posted the message, even if it reported an error."""
        return self.fencing_token > 1
