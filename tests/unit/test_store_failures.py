"""The sentence for each way in which a database fails."""

import sqlite3

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError

from bot.store.failures import unavailable

PLACE = "/srv/queue.sqlite3"
SERVER = "postgresql://queue"


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
    assert str(unavailable(refused, SERVER)) == f"{SERVER} cannot be used: [Errno 111] Connect call failed."


class ServerError(Exception):
    """An error of PostgreSQL, as its driver brings it."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__("what the server says\nand more")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "advice"),
    [
        ("25006", "takes writes"),
        ("28P01", "refuses this user and password: what the server says."),
        ("3D000", "create that database"),
        ("42501", "does not allow this user"),
        ("53100", "free some space"),
        ("53300", "max_connections"),
        ("57P03", "cannot be used: what the server says."),
    ],
)
def test_each_refusal_of_a_server_is_one_sentence_that_names_the_place(sqlstate: str, advice: str) -> None:
    sentence = str(unavailable(DBAPIError("SELECT 1", {}, ServerError(sqlstate)), SERVER))
    assert SERVER in sentence
    assert advice in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_a_server_that_does_not_respond_is_named() -> None:
    assert str(unavailable(TimeoutError(), SERVER)) == (
        f"{SERVER} does not answer: check that it runs and can be reached."
    )


@pytest.mark.parametrize("kind", [IntegrityError, ProgrammingError])
def test_bugs_of_the_program_are_not_hidden(kind: type[IntegrityError] | type[ProgrammingError]) -> None:
    assert unavailable(kind("SELECT 1", {}, Exception("no such thing")), PLACE) is None
