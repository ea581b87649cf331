"""The log of the process: lines of text for people, or one JSON object a line for machines."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Literal, TextIO

from bot.domain.errors import StoreUnavailable
from bot.telemetry.redaction import redact
from bot.telemetry.tracing import subject

VERBOSE = ("aiosqlite", "alembic", "asyncio", "jax", "PIL", "sqlalchemy", "urllib3")
REPEATING = ("opentelemetry.exporter",)  # it warns of each attempt, and then says whether it has failed
PRIVATE_DETAILS = ("discord",)  # its debug lines hold what people typed, and interaction tokens

# Characters that end a line, move the cursor, or change the direction of the text after them.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_INDENT = "    "  # of tracebacks, so that none of their lines looks like a line of the log

MAX_LINES = 10_000  # waiting to be written; further lines are dropped and counted
FLUSH_SECONDS = 2.0

GATEWAY_HEARTBEAT_SECONDS = 41.25  # between two heartbeats, as Discord wants them
NEARLY = 1.0
RARE_SECONDS = 60.0

FIELDS = ("job", "image", "lane", "trace", "durations")
"""What a line may say beside its message: its job, image, lane and trace, and durations in seconds."""


def version() -> str:
    """Return the version of the bot; "unknown" where the package is not installed."""
    try:
        return metadata.version("sdjax-bot")
    except metadata.PackageNotFoundError:
        return "unknown"


def set_up(level: str = "info", form: Literal["text", "json"] = "text", stream: TextIO | None = None) -> None:
    """Send the whole process's log to `stream`, by default the standard error stream.

    A thread writes the lines, so that no caller waits for the reader; see `flush`. Verbose libraries log
    warnings only. Failed exports of traces are logged once each. discord.py's debug lines are never logged.
    Lines about a StoreUnavailable that is logged already are dropped, and false alarms of discord.py. Lines
    that strangers can cause as often as they like are short and rare.
    """
    handler = LinesHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(_is_news)
    handler.addFilter(_is_no_false_alarm)
    handler.addFilter(StrangersLines())
    handler.addFilter(_add_subject)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in VERBOSE:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    for name in REPEATING:
        logging.getLogger(name).setLevel(logging.ERROR)
    for name in PRIVATE_DETAILS:
        logging.getLogger(name).setLevel(max(logging.INFO, root.level))


def name_process(name: str) -> None:
    """Set the name of this process in JSON lines; until then it is the host and the process id."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonFormatter):
            handler.formatter.process = name


def flush() -> None:
    """Wait until all lines are written, for two seconds at most."""
    for handler in logging.getLogger().handlers:
        handler.flush()


class LinesHandler(logging.Handler):
    """Writes lines to `stream` from a thread, in order; at most `most` lines wait."""

    def __init__(self, stream: TextIO, *, most: int = MAX_LINES) -> None:
        super().__init__()
        self._write = _writer_of(stream)
        self._most = most
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._writing: threading.Thread | None = None
        self._changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record's line; never waits for the stream."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - as in `logging`: an error in a message is reported, not raised
            self.handleError(record)
            return
        with self._changed:
            if len(self._lines) >= self._most:
                self._dropped += 1
                return
            self._report_dropped()
            self._lines.append(line)
            if self._writing is None:
                self._writing = threading.Thread(target=self._run, name="log", daemon=True)
                self._writing.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until every line is written, for two seconds at most: the reader may be gone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, FLUSH_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._lines))
                line = self._lines[0]
            with suppress(OSError, ValueError):  # the reader is gone, or the stream is closed
                self._write(f"{line}\n")
            with self._changed:
                self._lines.popleft()
                if not self._lines:
                    self._report_dropped()
                self._changed.notify_all()

    def _report_dropped(self) -> None:
        """Log how many lines were dropped, if any."""
        if self._dropped:
            message = "%d lines of the log were dropped: nobody read them in time"
            record = logging.LogRecord(__name__, logging.WARNING, "", 0, message, (self._dropped,), None)
            self._lines.append(self.format(record))
            self._dropped = 0


def _writer_of(stream: TextIO) -> Callable[[str], None]:
    """Return a function that writes text to `stream`, or to its file descriptor if it has one."""
    # A writer that waits for a reader inside Python's buffer keeps the buffer's lock. The interpreter needs
    # that lock when it exits.
    try:
        file = stream.fileno()
    except (OSError, ValueError):

        def put(text: str) -> None:
            stream.write(text)
            stream.flush()

        return put

    def put_unbuffered(text: str) -> None:
        data = text.encode(stream.encoding, "backslashreplace")
        while data:
            data = data[os.write(file, data) :]

    return put_unbuffered


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for a line about a StoreUnavailable that `bot.store.database.outage` has logged."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(value, StoreUnavailable) and value.logged for value in arguments)


def _is_no_false_alarm(record: logging.LogRecord) -> bool:
    """Return False for discord.py's warning that a shard is behind by the time between two heartbeats.

    discord.py may note a heartbeat as sent only after its answer: it then measures from the one before.
    """
    if record.name != "discord.gateway" or not isinstance(record.args, tuple) or len(record.args) != 2:
        return True
    behind = record.args[1]
    return not (
        "behind" in record.msg
        and isinstance(behind, float)
        and abs(behind - GATEWAY_HEARTBEAT_SECONDS) < NEARLY
    )


class StrangersLines:
    """Shortens the lines that anybody who reaches a port can cause; each passes once in `RARE_SECONDS`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._passed_at: dict[str, float] = {}
        self._dropped: Counter[str] = Counter()

    def __call__(self, record: logging.LogRecord) -> bool:
        """The filter for `logging`: return whether to write the record, which may be changed."""
        said = _caused_by_strangers(record)
        if said is None:
            return True
        if self._clock() - self._passed_at.get(said, -math.inf) < RARE_SECONDS:
            self._dropped[said] += 1
            return False
        self._passed_at[said] = self._clock()
        dropped = self._dropped.pop(said, 0)
        record.msg, record.args, record.exc_info, record.exc_text = said, (), None, None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        if dropped:
            record.msg = f"{said}; {dropped} more times since the last such line"
        return True


def _caused_by_strangers(record: logging.LogRecord) -> str | None:
    """Return the short line for a record that strangers can cause; None for any other record."""
    error = record.exc_info[1] if record.exc_info else None
    if record.name == "asyncio" and isinstance(error, OSError) and "socket.accept()" in record.getMessage():
        return f"a connection is not accepted: {os.strerror(error.errno or 0)}"
    if type(error).__module__ == "aiohttp.http_exceptions":
        return "a request that is no valid HTTP was refused"
    return None


def _add_subject(record: logging.LogRecord) -> bool:
    for name, value in subject().items():
        if not hasattr(record, name):
            setattr(record, name, value)
    return True


def harmless(text: str) -> str:
    """Return `text` on one line, without secrets, and with control characters escaped."""
    return escaped(redact(text))


def escaped(text: str) -> str:
    """Return `text` with control characters, and those that change its direction, as escapes."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _indented(lines: str) -> str:
    return "\n".join(f"{_INDENT}{harmless(line)}" for line in lines.split("\n"))


class TextFormatter(logging.Formatter):
    """`2026-01-31 12:00:01 INFO    bot.worker [job 3f9k2] message`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s%(about)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and its traceback indented below."""
        job = getattr(record, "job", None)
        record.about = f" [job {job}]" if job else ""
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - named by `logging`
        """Return the line."""
        return harmless(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return the traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        """Return the stack."""
        return _indented(super().formatStack(stack_info))


class JsonFormatter(logging.Formatter):
    """One object: time (UTC), level, process, version, logger, message, and those of `FIELDS` that are known.

    A line of an error has its traceback.
    """

    def __init__(self) -> None:
        super().__init__()
        self.process = f"{socket.gethostname()}-{os.getpid()}"
        self._version = version()

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as one line."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self.process,
            "version": self._version,
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        said = ((name, getattr(record, name, None)) for name in FIELDS)
        entry |= {name: value for name, value in said if value is not None}
        if record.exc_info:
            entry["traceback"] = redact(self.formatException(record.exc_info))
        return escaped(json.dumps(entry, ensure_ascii=False))
