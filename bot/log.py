"""What the process writes about its work: lines for people, or one JSON object a line for machines."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from bot.discretion import discreet

CHATTY = ("aiosqlite", "alembic", "asyncio", "jax", "PIL", "sqlalchemy")
INDISCREET = ("discord",)  # its details hold what people typed, and tokens to answer with

# What ends a line, moves the cursor, or turns round what follows, somewhere.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BELOW = "    "  # no line of a traceback begins where a line of the log does

MOST_LINES = 10_000  # that wait for somebody who reads; further ones are lost, and their number told
FLUSH_SECONDS = 2.0

_job: ContextVar[str | None] = ContextVar("job", default=None)


@contextmanager
def about(job_id: str) -> Iterator[None]:
    """Everything logged inside, in this task and those it starts, carries the job's id."""
    before = _job.set(job_id)
    try:
        yield
    finally:
        _job.reset(before)


def set_up(level: str = "info", form: Literal["text", "json"] = "text", stream: TextIO | None = None) -> None:
    """Send the whole process's log to `stream`, the standard error stream when left out.

    A thread of its own writes it, so that nobody who logs waits for a reader; see `flush`.
    Of libraries that tell of their every step, only warnings are heard, and never the details of what
    goes to and from Discord.
    """
    handler = LinesHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(_add_job)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    for name in INDISCREET:
        logging.getLogger(name).setLevel(max(logging.INFO, root.level))


def flush() -> None:
    """Wait, for two seconds at most, until what was logged is written."""
    for handler in logging.getLogger().handlers:
        handler.flush()


class LinesHandler(logging.Handler):
    """Writes lines to `stream` from a thread of its own, in order, at most `most` of them waiting."""

    def __init__(self, stream: TextIO, *, most: int = MOST_LINES) -> None:
        super().__init__()
        self._write = _writer_of(stream)
        self._most = most
        self._lines: deque[str] = deque()
        self._lost = 0
        self._writing: threading.Thread | None = None
        self._changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        """Put the record's line behind the others; never waits for the stream."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - logging's own way: a mistake in a message is told, and harms nobody
            self.handleError(record)
            return
        with self._changed:
            if len(self._lines) >= self._most:
                self._lost += 1
                return
            self._tell_lost()
            self._lines.append(line)
            if self._writing is None:
                self._writing = threading.Thread(target=self._run, name="log", daemon=True)
                self._writing.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until every line is written, two seconds at most: nobody may be reading."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, FLUSH_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._lines))
                line = self._lines[0]
            with suppress(OSError, ValueError):  # the reader is gone, or the stream is closed: nobody to tell
                self._write(f"{line}\n")
            with self._changed:
                self._lines.popleft()
                if not self._lines:
                    self._tell_lost()
                self._changed.notify_all()

    def _tell_lost(self) -> None:
        """Say how many lines are missing, where some are."""
        if self._lost:
            words = "%d lines of the log are missing: nobody read them in time"
            missing = logging.LogRecord(__name__, logging.WARNING, "", 0, words, (self._lost,), None)
            self._lines.append(self.format(missing))
            self._lost = 0


def _writer_of(stream: TextIO) -> Callable[[str], None]:
    """What writes text to `stream`, past its buffer if there is a file below.

    Whoever waits for a reader inside a buffer keeps its lock, and the interpreter wants that at its end.
    """
    try:
        file = stream.fileno()
    except (OSError, ValueError):

        def put(text: str) -> None:
            stream.write(text)
            stream.flush()

        return put

    def put_past(text: str) -> None:
        data = text.encode(stream.encoding, "backslashreplace")
        while data:
            data = data[os.write(file, data) :]

    return put_past


def _add_job(record: logging.LogRecord) -> bool:
    if not hasattr(record, "job"):
        record.job = _job.get()
    return True


def harmless(text: str) -> str:
    """`text` on one line, without secrets, and with control characters spelled out."""
    return _escaped(discreet(text))


def _escaped(text: str) -> str:
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _indented(lines: str) -> str:
    return "\n".join(f"{_BELOW}{harmless(line)}" for line in lines.split("\n"))


class TextFormatter(logging.Formatter):
    """`12:00:01 INFO    bot.worker [job 3f9k2] message`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s%(about)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The line, and below it, indented, the traceback if there is one."""
        job = getattr(record, "job", None)
        record.about = f" [job {job}]" if job else ""
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of logging's own
        """The line."""
        return harmless(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """The traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        """The stack."""
        return _indented(super().formatStack(stack_info))


class JsonFormatter(logging.Formatter):
    """One object: time (UTC), level, logger, message, and job and traceback where there are."""

    def format(self, record: logging.LogRecord) -> str:
        """The object as one line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": discreet(record.getMessage()),
        }
        if job := getattr(record, "job", None):
            entry["job"] = job
        if record.exc_info:
            entry["traceback"] = discreet(self.formatException(record.exc_info))
        return _escaped(json.dumps(entry, ensure_ascii=False))
