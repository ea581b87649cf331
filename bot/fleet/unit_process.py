"""The process of one unit: a shipped worker or front, restarted until it is drained.

Ray's actor holds it. The process dies with the actor: it gets SIGTERM, and drains.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot.fleet.launch import Launch
from bot.fleet.planning import Phase

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a restart; each failure doubles the pause
LAST_WORDS = 2000  # bytes of the log that tell why a process ended
LOG = Path("/proc/self/fd/2")  # the log is this process's own: Ray keeps it in a file


@dataclass(frozen=True, kw_only=True)
class UnitState:
    """The state of a unit: its phase, its machine and process, and why the process last ended by itself."""

    phase: Phase
    machine: str
    pid: int | None
    restarts: int = 0
    trouble: str = ""


class UnitProcess:
    """Runs what `launch` says in a process. Its methods return at once and raise nothing."""

    def __init__(self, launch: Launch, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._launch = launch
        self._clock = clock
        self._lock = threading.Lock()
        self._draining = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._ready_file: Path | None = None
        self._ended = False
        self._restarts = 0
        self._trouble = ""
        # Linux signals the parent's death when the thread that started the child ends, so this thread lives
        # as long as the process.
        threading.Thread(target=self._keep, name="unit", daemon=True).start()

    def state(self) -> UnitState:
        """Return the state now."""
        with self._lock:
            child, ready = self._child, self._ready_file
            if self._ended:
                phase = Phase.ENDED
            elif self._draining.is_set():
                phase = Phase.DRAINING
            elif child is not None and child.poll() is None and ready is not None and ready.exists():
                phase = Phase.PAINTING
            else:
                phase = Phase.STARTING
            return UnitState(
                phase=phase,
                machine=socket.gethostname(),
                pid=child.pid if child is not None else None,
                restarts=self._restarts,
                trouble=self._trouble,
            )

    def drain(self) -> None:
        """Let the process end its work; it is not started again."""
        with self._lock:
            if not self._draining.is_set():  # a second signal would end the process at once
                self._draining.set()
                if self._child is not None and self._child.poll() is None:
                    self._child.terminate()

    def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            began = self._clock()
            try:
                said = self._run_once()
            except OSError as error:
                said = f"{self._launch.command[0]}: {error.strerror or error}"
            if self._draining.is_set():
                break
            if self._clock() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            with self._lock:
                self._trouble, self._restarts = said, self._restarts + 1
            log.error("a process of the group %s has ended, and is restarted: %s", self._launch.group, said)
            if self._draining.wait(pause):
                break
            pause = min(LONGEST_PAUSE, 2 * pause)
        with self._lock:
            self._ended = True

    def _run_once(self) -> str:
        """Run the process to its end; return its last words. Raises OSError."""
        launch = self._launch
        with tempfile.TemporaryDirectory(prefix="sdjax-unit-") as folder:
            config, ready = Path(folder, "config.toml"), Path(folder, "ready")
            config.touch(mode=0o600)
            config.write_text(launch.config, encoding="utf-8")
            options = ("--config", str(config), "--ready-file", str(ready), *launch.arguments)
            child = (sys.executable, "-m", "bot.fleet.child", str(os.getpid()))
            with self._lock:
                if self._draining.is_set():
                    return ""
                self._ready_file = ready
                self._child = subprocess.Popen(  # noqa: S603 - the operator's configuration names the program
                    [*child, *launch.command, launch.role, *options],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            return _last_words(self._child.wait())


def _last_words(status: int) -> str:
    """Return the last line of the log, and the exit status."""
    said = "its log is not kept in a file"
    if LOG.is_file():
        with LOG.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_WORDS))
            said = (file.read().decode(errors="replace").strip().splitlines() or [""])[-1]
    return f"{said} (status {status})"
