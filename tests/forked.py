"""Processes of the bot without the time of their imports: forks of a process that has imported the bot.

A start takes 1.2 to 1.9 s of processor time for imports, and a fork a tenth of that. The modules and tables
that a bot loads at their first use, in one more second, are loaded too. All else is as in the shipped
command: its arguments, environment, folder, files, signals and end. A program can move its wall clock.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from typing import Any

CLOCK = """
import time
if not hasattr(time, "moved_by"):
    true, time.moved_by = time.time, 0.0
    time.time = lambda: true() + time.moved_by
"""
"""Lets a program move `time.time` by `time.moved_by` seconds. It must come before the bot's imports: the
bot has parameters whose default is `time.time`."""

SERVER = (
    CLOCK
    + """
import ctypes, gc, json, os, selectors, signal, sys, warnings
import bot.app.both
import bot.cli.main
import aiosqlite, flax.nnx, PIL.Image, scipy.fftpack, sdjax_engine.models.lora
from bot.moderation import hard_rule
from bot.texts.catalogue import LANGUAGES, Texts

PIL.Image.init()
hard_rule().matches("a boat")
for language in LANGUAGES:
    Texts.for_locale(language).gettext("a boat")

def tell(**said):
    os.write(1, json.dumps(said).encode() + b"\\n")

PR_SET_PDEATHSIG = 1
prctl = ctypes.CDLL(None).prctl

def begin(wanted, out):
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    null = os.open(os.devnull, os.O_RDWR)
    err = os.open(wanted["err"], os.O_WRONLY)
    for number, file in enumerate((null, out, err)):
        os.dup2(file, number)
    for file in (null, out, err):
        os.close(file)
    sys.argv = ["sdjax-bot", *wanted["arguments"]]
    sys.orig_argv = [sys.executable, "-c", "raise SystemExit('a forked bot cannot restart itself')"]
    exec(compile(wanted["program"], "program", "exec"), {"__name__": "__main__"})
    sys.exit(0)

assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the threads of a module"
gc.collect()
gc.freeze()
warnings.filterwarnings("ignore", message="os.fork")  # JAX has not begun any thread yet
lines, ready, children = open(0, "rb", buffering=0, closefd=False), selectors.DefaultSelector(), {}
ready.register(0, selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        if key.fd in children:
            pid = children.pop(key.fd)
            ready.unregister(key.fd)
            os.close(key.fd)
            tell(ended=pid, status=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        elif line := lines.readline():
            wanted = json.loads(line)
            out = os.open(wanted["out"], os.O_WRONLY)
            pid = os.fork()
            if not pid:
                ready.close()
                for file in children:
                    os.close(file)
                begin(wanted, out)
            os.close(out)
            tell(begun=pid)
            file = os.pidfd_open(pid)
            children[file] = pid
            ready.register(file, selectors.EVENT_READ)
        else:  # the tests have ended
            for pid in children.values():
                os.kill(pid, signal.SIGKILL)
            sys.exit(0)
"""
)


class Forked:
    """A forked process, with what the tests use of `asyncio.subprocess.Process`."""

    def __init__(self, pid: int, ended: Future[int]) -> None:
        self.pid = pid
        self.ended = ended  # with the exit status

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while the process runs; a negative number is the signal that ended it."""
        return self.ended.result() if self.ended.done() else None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; raises ProcessLookupError after the end."""
        if self.ended.done():
            raise ProcessLookupError(self.pid)
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for the end; return the exit status."""
        return await asyncio.wrap_future(asyncio_safe(self.ended))


def asyncio_safe(end: Future[int]) -> Future[int]:
    """A copy of a future: cancelling the wait for it leaves the future itself alone."""
    copy: Future[int] = Future()

    def hand_on(done: Future[int]) -> None:
        if not copy.set_running_or_notify_cancel():
            return
        if fault := done.exception():
            copy.set_exception(fault)
        else:
            copy.set_result(done.result())

    end.add_done_callback(hand_on)
    return copy


class Forks:
    """The process that has imported the bot, and its forks."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            bufsize=0,
        )
        self._lock = Lock()
        self._asked: queue.SimpleQueue[Future[Forked]] = queue.SimpleQueue()
        self._ends: dict[int, Future[int]] = {}
        self._listener = Thread(target=self._listen, name="forks", daemon=True)
        self._listener.start()

    def fork(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        err: Path,
        environment: Mapping[str, str],
        folder: Path | None = None,
        out: int | None = None,
    ) -> Future[Forked]:
        """Run `program`, source of Python, in a fork, as if it were started in `folder` with these arguments.

        The fork is killed when its parent ends. `out` is a pipe's descriptor, reopened for the fork.
        """
        err.write_bytes(b"")  # it is there before the process is
        wanted = {
            "program": program,
            "arguments": [*arguments],
            "err": str(err),
            "out": os.devnull if out is None else f"/proc/{os.getpid()}/fd/{out}",
            "environment": dict(environment),
            "folder": str(folder or Path.cwd()),
        }
        begun: Future[Forked] = Future()
        assert self._server.stdin is not None
        with self._lock:
            self._asked.put(begun)
            self._server.stdin.write(json.dumps(wanted).encode() + b"\n")
        return begun

    def _listen(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            said: dict[str, Any] = json.loads(line)
            if "begun" in said:
                pid: int = said["begun"]
                self._ends[pid] = Future()
                self._asked.get().set_result(Forked(pid, self._ends[pid]))
            else:
                self._ends.pop(said["ended"]).set_result(said["status"])
        ended = RuntimeError("The process that forks bots has ended: does `import bot.cli.main` work?")
        while not self._asked.empty():
            self._asked.get().set_exception(ended)
        for end in self._ends.values():
            end.set_exception(ended)

    def close(self) -> None:
        """End the process, and all of its forks."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._listener.join()
        self._server.stdout.close()


@cache
def forks(root: Path) -> Forks:
    """The forks of this test process; their parent has imported the bot of `root`."""
    # numpy's OpenBLAS begins threads on import where nothing forbids it, and forks would lack them.
    made = Forks({**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"})
    atexit.register(made.close)
    return made
