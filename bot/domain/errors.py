"""The bot's errors.

BotError
├── UserMistake          the person can correct it; its sentence is in the person's language
│   ├── SeveralMistakes
│   ├── UnknownJob
│   ├── UnreadableJob
│   └── NotYours
├── ConfigurationError   the start is refused; the message lists every mistake
│   └── CommandsRefused  by Discord; what a worker offers may be the cause
├── StoreUnavailable     the queue or the results cannot be reached or written (disk full, locked, gone)
│   └── ResultsUnavailable
├── MissingArtifact      the file of a result is lost
│   └── LostForGood      and cannot be repainted; `failure` says why
├── PictureUnsigned      a picture must be signed and cannot be
├── DiscordUnavailable   Discord cannot be reached, or has closed the connection for good
├── StartRefused         the picture to start from may not be used; `failure` says why
├── BackupRefused        a backup cannot be written, is damaged, or is of another version
├── FleetUnavailable     Ray cannot be reached, or has no such fleet
├── StaleLease           the lease has expired, or another worker has the image
├── NameTaken            another living process has the name of this process
└── DeliveryRefused      Discord will never take this message; `outcome` says why
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class BotError(Exception):
    """Base of every error the bot raises on purpose."""


class UserMistake(BotError):
    """Something the person can correct; a front translates `message_id` with `details`.

    The sentences of `further` follow. `appeal` is the number of a refusal that moderators may look at again.
    """

    message_id = "user_mistake"

    def __init__(
        self, message_id: str | None = None, *, further: Sequence[UserMistake] = (), **details: Any
    ) -> None:
        self.message_id = message_id or self.message_id
        self.details = details
        self.further = tuple(further)
        self.appeal: int | None = None
        super().__init__(f"{self.message_id} {details}" if details else self.message_id)


class SeveralMistakes(UserMistake):
    """Several mistakes of one request, each an InvalidRequest or a UserMistake with a sentence of its own."""

    message_id = "several_mistakes"

    def __init__(self, mistakes: Sequence[Exception]) -> None:
        super().__init__()
        self.mistakes = tuple(mistakes)


class UnknownJob(UserMistake):
    """No job has this id."""

    message_id = "unknown_job"


class UnreadableJob(UserMistake):
    """The job's row has values that this version cannot read: it waits for a front of a newer version."""

    message_id = "newer_request"


class NotYours(UserMistake):
    """The job belongs to another person."""

    message_id = "not_yours"


class ConfigurationError(BotError):
    """The configuration cannot be used; the message lists every mistake, one a line."""


class CommandsRefused(ConfigurationError):
    """Discord refuses the commands for these offers; the message names the command and the option."""


class StoreUnavailable(BotError):
    """The queue's database or the results' folder cannot be used; the message is one sentence naming it."""

    logged = False
    """Whether `bot.store.database.outage` has logged this error; the log then drops other lines about it."""


class ResultsUnavailable(StoreUnavailable):
    """The results' folder cannot be used; the message is one sentence naming it."""


class MissingArtifact(BotError):
    """The file of a result is lost. It may be repainted from its recipe."""


class LostForGood(MissingArtifact):
    """The file is lost and cannot be repainted; `failure` is the key of the sentence that says why."""

    def __init__(self, message: str, *, failure: str) -> None:
        super().__init__(message)
        self.failure = failure


class PictureUnsigned(BotError):
    """The configuration requires a signature, and the picture cannot be signed; the message says why."""


class DiscordUnavailable(BotError):
    """Discord cannot be reached, or has closed the connection for good; the message says which.

    Wait `retry_after` seconds before another attempt.
    """

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StartRefused(BotError):
    """The picture to start from may not be used; `failure` is the key of the sentence that says why."""

    def __init__(self, message: str, *, failure: str) -> None:
        super().__init__(message)
        self.failure = failure


class BackupRefused(BotError):
    """A backup cannot be written, is missing or damaged, or is of another version; the message says which."""


class FleetUnavailable(BotError):
    """Ray cannot be reached, or it has no fleet of this name; the message says what to do."""


class StaleLease(BotError):
    """The lease has expired or belongs to another worker; nothing was changed."""


class NameTaken(BotError):
    """Another living process has the name of this process; the message says which."""


class DeliveryRefused(BotError):
    """This message can never be delivered; `outcome` is stored with the delivery."""

    def __init__(self, outcome: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome
