"""The sentence for each way in which a database fails."""

import sqlite3
import ssl

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError

from bot.store.database.failures import unavailable

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
        ("SQLITE_CANTOPEN", "check that this account may write it"),
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
    assert str(unavailable(refused, SERVER)) == (
        f"{SERVER} cannot be reached ([Errno 111] Connect call failed): check that the server runs, and that "
        "queue.database has its address."
    )


class ServerError(Exception):
    """An error of PostgreSQL, as its driver brings it."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__("what the server says\nand more")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "advice"),
    [
        ("25006", "takes writes"),
        ("28P01", "(what the server says): check them in queue.database"),
        ("3D000", "create that database"),
        ("42501", "does not allow this user"),
        ("53100", "free some space"),
        ("53300", "max_connections"),
        ("57P03", "(what the server says): wait until it has started"),
        ("08006", "(what the server says): check that the server runs"),
        ("40P01", "cannot be used: what the server says."),
    ],
)
def test_each_refusal_of_a_server_is_one_sentence_that_names_the_place(sqlstate: str, advice: str) -> None:
    sentence = str(unavailable(DBAPIError("SELECT 1", {}, ServerError(sqlstate)), SERVER))
    assert SERVER in sentence
    assert advice in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_a_connection_without_tls_is_no_server_that_is_away() -> None:
    sentence = str(unavailable(ssl.SSLCertVerificationError("the certificate has expired"), SERVER))
    assert "cannot be reached over TLS (" in sentence
    assert "check ssl in queue.database" in sentence


def test_an_error_of_a_file_names_no_server() -> None:
    assert str(unavailable(OSError(5, "Input/output error"), PLACE)) == (
        f"{PLACE} cannot be used: [Errno 5] Input/output error."
    )


def test_a_server_that_does_not_respond_is_named() -> None:
    assert str(unavailable(TimeoutError(), SERVER)) == (
        f"{SERVER} does not answer: check that it runs and can be reached."
    )


@pytest.mark.parametrize("kind", [IntegrityError, ProgrammingError])
def test_bugs_of_the_program_are_not_hidden(kind: type[IntegrityError] | type[ProgrammingError]) -> None:
    assert unavailable(kind("SELECT 1", {}, Exception("no such thing")), PLACE) is None
