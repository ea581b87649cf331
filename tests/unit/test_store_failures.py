"""The sentence for each way in which a database fails."""

import sqlite3

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from bot.store.failures import unavailable

PLACE = "/srv/queue.sqlite3"


def sqlite_error(name: str) -> OperationalError:
    cause = sqlite3.OperationalError("what the driver says")
    cause.sqlite_errorname = name
    return OperationalError("SELECT 1", {}, cause)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("SQLITE_FULL", "free some space"),
        ("SQLITE_BUSY_SNAPSHOT", "locked by another process"),
        ("SQLITE_CANTOPEN", "check that it is a file"),
        ("SQLITE_READONLY_DIRECTORY", "check the permissions"),
        ("SQLITE_NOTADB", "move it away"),
        ("SQLITE_CORRUPT_INDEX", "restore it from a backup"),
        ("SQLITE_IOERR_WRITE", "full or broken"),
        ("SQLITE_ERROR", "what the driver says"),
    ],
)
def test_each_failure_is_one_sentence_that_names_the_place(name: str, advice: str) -> None:
    sentence = str(unavailable(sqlite_error(name), PLACE))
    assert PLACE in sentence
    assert advice in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_a_server_that_does_not_answer_is_named() -> None:
    refused = ConnectionRefusedError(111, "Connect call failed\nand more")
    assert str(unavailable(refused, "postgresql://queue")) == (
        "postgresql://queue cannot be used: [Errno 111] Connect call failed."
    )


@pytest.mark.parametrize("kind", [IntegrityError, ProgrammingError])
def test_our_own_mistakes_are_not_hidden(kind: type[IntegrityError] | type[ProgrammingError]) -> None:
    assert unavailable(kind("SELECT 1", {}, Exception("no such thing")), PLACE) is None
