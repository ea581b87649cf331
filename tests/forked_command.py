"""A command for programs that start commands, which runs as a fork of a process that has imported the bot.

    python -I -S forked_command.py ADDRESS ARGUMENT...

The command asks the test process at ADDRESS for the fork, hands SIGTERM on to it, and ends with its status.
If the command is killed, so is the fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forked import Forks

TERMINATE = b"t"


@contextlib.contextmanager
def forked_command(program: str, root: Path, errors: Path) -> Iterator[list[str]]:
    """The command that runs `program` in forks; each has a file for its errors in the folder `errors`."""
    from forked import forks  # noqa: PLC0415 - the command itself needs nothing of it

    preloaded = forks(root)
    folder = tempfile.mkdtemp(dir="/tmp")  # the address of a socket has 107 bytes at most
    address = str(Path(folder, "commands"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        threading.Thread(target=_serve, args=(server, program, preloaded, errors), daemon=True).start()
        try:
            yield [sys.executable, "-I", "-S", __file__, address]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            shutil.rmtree(folder)


def _serve(server: socket.socket, program: str, preloaded: Forks, errors: Path) -> None:
    with contextlib.suppress(OSError):  # the end of the tests
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_run, args=(connection, program, preloaded, errors), daemon=True).start()


def _run(connection: socket.socket, program: str, preloaded: Forks, errors: Path) -> None:
    """Run the fork of one command; the command ends when it reads the status."""
    with connection, connection.makefile("rb") as said:
        if not (line := said.readline()):  # the command was killed
            return
        wanted = json.loads(line)
        err, environment = errors / f"{wanted['pid']}.err", wanted["environment"]
        fork = preloaded.fork(program, wanted["arguments"], err=err, environment=environment).result()
        fork.ended.add_done_callback(lambda end: _tell(connection, end.result()))
        with contextlib.suppress(ProcessLookupError):
            while said.read(1) == TERMINATE:
                fork.send_signal(signal.SIGTERM)
            fork.kill()


def _tell(connection: socket.socket, status: int) -> None:
    with contextlib.suppress(OSError):  # the command was killed
        connection.sendall(b"%d\n" % status)


def main(address: str, *arguments: str) -> int:
    """Be the command: return the status of the fork."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        wanted = {"arguments": arguments, "environment": dict(os.environ), "pid": os.getpid()}
        connection.sendall(json.dumps(wanted).encode() + b"\n")
        signal.signal(signal.SIGTERM, lambda *_: connection.sendall(TERMINATE))
        with connection.makefile("rb") as said:
            return int(said.readline())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
