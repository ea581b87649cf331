"""What the process writes about its work: lines for people, or one JSON object a line for machines."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal, TextIO

CHATTY = ("aiosqlite", "alembic", "asyncio", "jax", "PIL", "sqlalchemy")
INDISCREET = ("discord",)  # its details hold what people typed, and tokens to answer with

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

    Of libraries that tell of their every step, only warnings are heard, and never the details of what
    goes to and from Discord.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
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


def _add_job(record: logging.LogRecord) -> bool:
    if not hasattr(record, "job"):
        record.job = _job.get()
    return True


class TextFormatter(logging.Formatter):
    """`12:00:01 INFO    bot.worker [job 3f9k2] message`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s%(about)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The line, and below it the traceback if there is one."""
        job = getattr(record, "job", None)
        record.about = f" [job {job}]" if job else ""
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """One object: time (UTC), level, logger, message, and job and traceback where there are."""

    def format(self, record: logging.LogRecord) -> str:
        """The object as one line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if job := getattr(record, "job", None):
            entry["job"] = job
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
