"""A command that runs as a fork of a process that has imported the bot, for programs that start commands.

    python -I -S forked_command.py ADDRESS ARGUMENT...

The command asks the test process at ADDRESS for the fork, hands SIGTERM on to it, and ends as it ends. If the
command is killed, the test process kills the fork.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forked import Forks

TERMINATE = b"t"


@contextmanager
def forked_command(program: str, root: Path, errors: Path) -> Iterator[list[str]]:
    """The command that runs `program` in forks; each has a file for its errors in the folder `errors`."""
    from forked import forks  # noqa: PLC0415 - the command itself needs nothing of it

    folder = tempfile.mkdtemp(dir="/tmp")  # the address of a socket has 107 bytes at most
    address = str(Path(folder, "commands"))
    commands = Commands(program, forks(root), errors, address)
    try:
        yield [sys.executable, "-I", "-S", __file__, address]
    finally:
        commands.close()
        shutil.rmtree(folder)


class Commands:
    """Runs a fork for each command that connects to `address`."""

    def __init__(self, program: str, preloaded: Forks, errors: Path, address: str) -> None:
        self._program, self._preloaded, self._errors = program, preloaded, errors
        self._open: list[socket.socket] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(address)
        self._server.listen()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """End the commands that still run, and kill their forks."""
        accepting, *_ = self._threads
        self._server.shutdown(socket.SHUT_RDWR)
        accepting.join()
        self._server.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):  # the end of the tests
            while True:
                connection, _ = self._server.accept()
                self._open.append(connection)
                self._threads.append(threading.Thread(target=self._run, args=(connection,), daemon=True))
                self._threads[-1].start()

    def _run(self, connection: socket.socket) -> None:
        """Run the fork of one command; the command ends when it reads the status, or nothing."""
        with connection, connection.makefile("rb") as said, suppress(OSError, RuntimeError):
            if not (line := said.readline()):  # the command was killed
                return
            wanted = json.loads(line)
            fork = self._preloaded.fork(
                self._program,
                wanted["arguments"],
                err=self._errors / f"{wanted['pid']}.err",
                environment=wanted["environment"],
                folder=Path(wanted["folder"]),
            ).result()
            fork.ended.add_done_callback(lambda end: _tell(connection, end))
            while said.read(1) == TERMINATE:
                with suppress(ProcessLookupError):  # the command reads the status before it ends
                    fork.send_signal(signal.SIGTERM)
            fork.kill()


def _tell(connection: socket.socket, end: Future[int]) -> None:
    """Tell a command how its fork has ended, and that nothing follows."""
    with suppress(OSError):  # the command was killed
        if end.exception() is None:
            connection.sendall(b"%d\n" % end.result())
        connection.shutdown(socket.SHUT_RDWR)


def main(address: str, *arguments: str) -> int:
    """Be the command: end as the fork ends, or with status 1 where the test process has ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # `_hand_on` takes it
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        wanted = {"arguments": arguments, "environment": dict(os.environ), "folder": str(Path.cwd())}
        connection.sendall(json.dumps(wanted | {"pid": os.getpid()}).encode() + b"\n")
        threading.Thread(target=_hand_on, args=(connection,), daemon=True).start()
        with connection.makefile("rb") as said:
            status = int(said.readline() or b"1")
    if status < 0:
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-status])
        os.kill(os.getpid(), -status)
    return status


def _hand_on(connection: socket.socket) -> None:
    """Hand each SIGTERM on until the end."""
    with suppress(OSError):  # the fork has ended
        while signal.sigwait([signal.SIGTERM]):
            connection.sendall(TERMINATE)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
