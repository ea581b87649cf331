"""How often each lane was asked for lately, kept between starts, so that the most used is ready first."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

FILE = "usage.json"
HALF_LIFE = 3 * 24 * 3600.0  # seconds until a request counts half
SECONDS_BETWEEN_WRITES = 300.0


class Usage:
    """How often each name was asked for; old requests count less. May be used from any thread.

    The counts are kept in `folder` (None: not at all). A file that cannot be read or written is ignored.
    """

    def __init__(self, folder: Path | None, *, clock: Callable[[], float] = time.time) -> None:
        self._file = None if folder is None else folder / FILE
        self._clock = clock
        self._lock = threading.Lock()
        self._written_at = clock()
        self._counts = self._read()

    def count(self, *names: str) -> None:
        """Count a request for each of the names; written now and then."""
        with self._lock:
            now = self._clock()
            for name in names:
                self._counts[name] = self._counts.get(name, 0.0) + 1.0
            due = now - self._written_at >= SECONDS_BETWEEN_WRITES
        if due:
            self.write()

    def in_order(self, names: Sequence[str]) -> list[str]:
        """Return the names by their counts, the largest first; equal counts keep their order."""
        with self._lock:
            counts = dict(self._counts)
        return sorted(names, key=lambda name: -counts.get(name, 0.0))

    def write(self) -> None:
        """Keep the counts for the next start."""
        if self._file is None:
            return
        with self._lock, suppress(OSError):
            self._age()
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part = self._file.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps({"at": self._written_at, "counts": self._counts}), encoding="utf-8")
            part.replace(self._file)

    def _age(self) -> None:
        """Reduce every count by its age."""
        now = self._clock()
        left = math.exp2(min(0.0, self._written_at - now) / HALF_LIFE)
        self._counts = {name: count * left for name, count in self._counts.items()}
        self._written_at = now

    def _read(self) -> dict[str, float]:
        if self._file is None:
            return {}
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
            left = math.exp2(min(0.0, float(stored["at"]) - self._written_at) / HALF_LIFE)
            return {str(name): float(count) * left for name, count in stored["counts"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}
