"""The log: lines of text or JSON objects, with the id of the job."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Literal, TextIO

import pytest
from aiohttp import web
from discord.gateway import KeepAliveHandler

from bot.telemetry.log import RARE_SECONDS, LinesHandler, StrangersLines, flush, name_process, set_up, version
from bot.telemetry.tracing import about


@pytest.fixture(autouse=True)
def the_log_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def written(form: Literal["text", "json"], level: str = "info") -> str:
    stream = io.StringIO()
    set_up(level, form, stream)
    log = logging.getLogger("bot.worker")
    log.debug("a detail")
    log.info("outside")
    with about("3f9k2", image=12, lane="tiny:64x64:guided"):
        try:
            raise ValueError("그림")
        except ValueError:
            log.exception("%d pictures failed", 2, extra={"durations": {"denoise": 1.5}})
    flush()
    return stream.getvalue()


def test_text_lines_name_level_part_and_job() -> None:
    first, second, *traceback = written("text").splitlines()
    assert first.endswith("INFO    bot.worker outside")
    assert second.endswith("ERROR   bot.worker [job 3f9k2] 2 pictures failed")
    assert traceback[-1] == "    ValueError: 그림"


def test_json_is_one_object_a_line() -> None:
    first, second = map(json.loads, written("json").splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("info", "bot.worker", "outside")
    assert "job" not in first
    assert (second["job"], second["image"], second["lane"]) == ("3f9k2", 12, "tiny:64x64:guided")
    assert second["durations"] == {"denoise": 1.5}
    assert first["process"] == second["process"] == f"{socket.gethostname()}-{os.getpid()}"
    assert first["version"] == version()
    assert second["traceback"].endswith("ValueError: 그림")
    assert second["time"].endswith("+00:00")


def test_json_lines_name_the_process_as_the_queue_does() -> None:
    stream = io.StringIO()
    set_up("info", "json", stream)
    name_process("painter-worker-1")
    logging.getLogger("bot.worker").info("painted")
    flush()
    assert json.loads(stream.getvalue())["process"] == "painter-worker-1"


@pytest.mark.parametrize("name", ["discord.gateway", "discord.http", "discord.webhook.async_"])
def test_the_details_of_discord_py_are_never_logged(name: str) -> None:
    stream = io.StringIO()
    set_up("debug", "text", stream)
    logging.getLogger(name).debug("PATCH /webhooks/1/a-token/messages/@original")
    logging.getLogger(name).info("connected")
    flush()
    assert "a-token" not in stream.getvalue()
    assert "connected" in stream.getvalue()


@pytest.mark.parametrize(("behind", "told"), [(41.3, False), (12.0, True), (55.0, True)])
def test_a_heartbeat_that_is_answered_before_it_is_noted_as_sent_is_no_warning(
    behind: float, told: bool
) -> None:
    stream = io.StringIO()
    set_up("info", "text", stream)
    handler = KeepAliveHandler(
        ws=SimpleNamespace(thread_id=0, _max_heartbeat_timeout=60.0), interval=41.25, shard_id=0
    )  # type: ignore[arg-type]
    handler._last_send = time.perf_counter() - behind
    handler.ack()
    flush()
    assert ("Can't keep up, shard ID 0 websocket is" in stream.getvalue()) is told


async def test_requests_that_are_no_http_make_one_short_line_in_a_while() -> None:
    stream = io.StringIO()
    set_up("info", "text", stream)
    server = await asyncio.get_running_loop().create_server(
        web.Server(no_page, access_log=None), "127.0.0.1", 0
    )
    async with server:
        host, port = server.sockets[0].getsockname()
        for request in (
            b"GET /\0 HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: " + b"a" * 10_000 + b"\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(request)
            assert (await reader.read()).startswith(b"HTTP/1.0 400 ")
            writer.close()
    flush()
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("WARNING aiohttp.server a request that is no valid HTTP was refused")


async def no_page(_request: web.BaseRequest) -> web.StreamResponse:
    raise web.HTTPNotFound


def test_connections_that_cannot_be_accepted_are_counted_in_one_line_in_a_while() -> None:
    lines, now = StrangersLines(clock=lambda: now), 1000.0
    error = OSError(errno.EMFILE, "Too many open files")
    said = [f"socket.accept() out of system resource\nsocket: {number}" for number in range(3)]
    records = [
        logging.LogRecord("asyncio", logging.ERROR, "", 0, each, (), (OSError, error, None)) for each in said
    ]
    assert [lines(each) for each in records] == [True, False, False]
    now += RARE_SECONDS
    assert lines(records[1])
    assert [records[0].getMessage(), records[1].getMessage()] == [
        "a connection is not accepted: Too many open files",
        "a connection is not accepted: Too many open files; 2 more times since the last such line",
    ]
    other = logging.LogRecord("asyncio", logging.ERROR, "", 0, "a task failed", (), (OSError, error, None))
    assert all(lines(other) for _ in range(3))
    assert other.exc_info


def test_the_level_decides_what_is_written() -> None:
    assert "a detail" in written("text", "debug")
    assert "a detail" not in written("text")
    assert "outside" not in written("text", "warning")


FORGED = "a prompt\n2026-01-01 00:00:00 ERROR   bot.store all is lost\r\x1b[2K\u2028\x85\u202e"


@pytest.mark.parametrize("form", ["text", "json"])
def test_control_characters_are_escaped(form: Literal["text", "json"]) -> None:
    stream = io.StringIO()
    set_up("info", form, stream)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("bot.front").exception("not painted: %s", FORGED)
    flush()
    written = stream.getvalue()
    assert not any(character in written for character in "\r\x1b\u2028\x85\u202e")
    assert not any(line.startswith("2026-01-01 00:00:00 ERROR") for line in written.split("\n"))


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_holds_a_login_or_a_token(form: Literal["text", "json"]) -> None:
    stream = io.StringIO()
    set_up("info", form, stream)
    token = f"{'MTIz' * 6}.GabCde.{'x' * 38}"
    try:
        raise ConnectionError(f"sftp://bot:hunter2@files/x with {token}")
    except ConnectionError:
        logging.getLogger("bot.front").exception("PATCH /api/v10/webhooks/12/aW50ZXJ/messages/@original")
    flush()
    assert not any(secret in stream.getvalue() for secret in ("hunter2", token, "aW50ZXJ"))


@pytest.fixture
def unread() -> Iterator[tuple[TextIO, TextIO]]:
    """The two ends of a pipe that is not read yet: for reading and for writing."""
    reading, writing = os.pipe()
    with closing(os.fdopen(reading)) as reader, closing(os.fdopen(writing, "w")) as writer:
        yield reader, writer


LONG = "x" * 1000  # a hundred of these are more than a pipe holds


def test_logging_never_waits_for_the_reader(unread: tuple[TextIO, TextIO]) -> None:
    reader, writer = unread
    set_up("info", "text", writer)
    log = logging.getLogger("bot.front")
    logging_much = threading.Thread(
        target=lambda: [log.info("%d %s", number, LONG) for number in range(200)], daemon=True
    )
    logging_much.start()
    logging_much.join(20.0)
    assert not logging_much.is_alive()
    assert [next(reader).split()[4] for _ in range(200)] == [str(number) for number in range(200)]


def test_dropped_lines_are_counted_in_the_log(unread: tuple[TextIO, TextIO]) -> None:
    reader, writer = unread
    handler = LinesHandler(writer, most=5)
    for number in range(200):
        handler.emit(logging.LogRecord("bot", logging.INFO, "", 0, "%d %s", (number, LONG), None))
    kept = lost = 0
    while kept + lost < 200:
        line = next(reader)
        if "lines of the log were dropped" in line:
            lost += int(line.split()[0])
        else:
            kept += 1
    assert kept + lost == 200
    assert lost
