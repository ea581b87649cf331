"""The bot's errors.

BotError
├── UserMistake          the person can put it right; said to them in their language
│   ├── UnknownJob
│   └── NotYours
├── ConfigurationError   the start is refused; lists every mistake at once
├── StoreUnavailable     the queue or the results cannot be reached or written (disk full, locked, gone)
├── MissingArtifact      the file of a result is gone
│   └── LostForGood      and cannot be painted again; `failure` says why
├── DiscordUnavailable   Discord cannot be reached, or has ended the connection for good
├── StaleLease           the lease is no longer ours: someone else has the image now
├── NameTaken            another living process works under the name of this one
└── DeliveryRefused      Discord will never take this message; `outcome` says why
"""

from __future__ import annotations

from typing import Any


class BotError(Exception):
    """Base of every error the bot raises on purpose."""


class UserMistake(BotError):
    """Something the person can put right; `message_id` and `details` let a front end translate it."""

    message_id = "user_mistake"

    def __init__(self, message_id: str | None = None, **details: Any) -> None:
        self.message_id = message_id or self.message_id
        self.details = details
        super().__init__(f"{self.message_id} {details}" if details else self.message_id)


class UnknownJob(UserMistake):
    """There is no job of this id."""

    message_id = "unknown_job"


class NotYours(UserMistake):
    """The job belongs to someone else."""

    message_id = "not_yours"


class ConfigurationError(BotError):
    """The configuration cannot work; the message lists every mistake, one to a line."""


class StoreUnavailable(BotError):
    """The queue's database or the results' folder cannot be used; the message is one sentence naming it."""


class MissingArtifact(BotError):
    """The file of a result is gone; its recipe paints it again."""


class LostForGood(MissingArtifact):
    """The file is gone, and painting it again is not possible; `failure` names the sentence that says why."""

    def __init__(self, message: str, *, failure: str) -> None:
        super().__init__(message)
        self.failure = failure


class DiscordUnavailable(BotError):
    """Discord cannot be reached, or has closed the connection for good; the message says which."""


class StaleLease(BotError):
    """The lease has expired or was taken over; nothing was changed."""


class NameTaken(BotError):
    """Another living process has the name that this one works under; the message says which."""


class DeliveryRefused(BotError):
    """This message can never be delivered; `outcome` is stored with the delivery."""

    def __init__(self, outcome: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome
