"""Runs pytest's processes as forks of one process that has collected all tests.

    python tests/prefork.py PROCESSES [options of pytest]

To collect the tests, a process imports their modules, and with them torch, diffusers and JAX. That takes
20 s of the processor, in each process of pytest-xdist. A fork of a process that has done it takes 1 s. All
else is pytest-xdist's: it starts each of its processes as `prefork.py --join ADDRESS`, which hands its pipes
to a fork and ends with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import os
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

JEMALLOC = "core/libjemalloc.so"  # in Ray's package
PRELOADED, SETTINGS = "LD_PRELOAD", "MALLOC_CONF"
KEEPS = "dirty_decay_ms:-1,muzzy_decay_ms:-1"  # freed memory stays with the process
JOIN = "--join"
PR_SET_PDEATHSIG = 1  # of prctl: the signal for this process when its parent dies
PIPES = (0, 1, 2)  # input, output, errors
EXECNET = "exec(eval(sys.stdin.readline()))"
"""What execnet runs in a process: the first line that it sends there."""


def main(processes: str, *options: str) -> int:
    """Collect the tests, fork the processes that pytest asks for, and return its exit status.

    A fork leaves this function by `SystemExit`, so no `finally` here may clean up: each fork would run it.
    """
    folder = tempfile.mkdtemp(dir="/tmp")  # the address of a socket has 107 bytes at most
    address = str(Path(folder, "prefork"))
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    joining = shlex.join([sys.executable, "-I", "-S", __file__, JOIN, address])
    command = [sys.executable, "-m", "pytest", f"--tx={processes}*popen//python={joining}", "--dist=loadfile"]
    tests = subprocess.Popen([*command, *options])
    signal.signal(signal.SIGTERM, lambda *_: tests.terminate())
    failure = 0
    try:
        if failure := collect():
            tests.kill()
        else:
            serve(server, tests.pid)
    except KeyboardInterrupt:  # pytest receives it too, and reports how far it came
        pass
    shutil.rmtree(folder)
    return failure or tests.wait()


def use_jemalloc(*arguments: str) -> None:
    """Start this program once more with jemalloc, with which XLA compiles a seventh faster.

    The forks have it too. The programs that tests start have the C library's allocator, as in production. The
    TPU's compiler crashes with any other.
    """
    ray = find_spec("ray")
    library = str(Path(ray.origin).parent / JEMALLOC) if ray and ray.origin else ""
    if PRELOADED not in os.environ and Path(library).is_file():
        preloaded = {**os.environ, PRELOADED: library, SETTINGS: KEEPS}
        os.execve(sys.executable, [sys.executable, __file__, *arguments], preloaded)
    if library and os.environ.get(PRELOADED) == library:
        for name in (PRELOADED, SETTINGS):
            os.environ.pop(name, None)


def collect() -> int:
    """Import and collect all tests in this process, and print what failed."""
    import pytest  # noqa: PLC0415 - a process that joins needs none of it

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = int(pytest.main(["--quiet", "--collect-only", "-p", "no:xdist", "-p", "no:cacheprovider"]))
    if not status and len(list(Path("/proc/self/task").iterdir())) > 1:
        status = 1
        print("A module of the tests starts a thread when it is imported: a fork would lack it.", file=said)
    if status:
        print(said.getvalue(), flush=True)
    gc.freeze()
    return status


def serve(server: socket.socket, tests: int) -> None:
    """Fork for each process that joins, and wait for the forks once the process `tests` has ended."""
    ready = selectors.DefaultSelector()
    ready.register(server, selectors.EVENT_READ)
    ready.register(os.pidfd_open(tests), selectors.EVENT_READ)
    workers = []
    while all(key.fileobj is server for key, _ in ready.select()):
        workers.append(fork(server))
    for worker in workers:
        os.kill(worker, signal.SIGKILL)  # pytest no longer waits for it
        os.waitpid(worker, 0)


def fork(server: socket.socket) -> int:
    """Fork for the next process that joins, and return the fork's id."""
    connection, _ = server.accept()
    _, pipes, _, _ = socket.recv_fds(connection, 1, len(PIPES))
    worker = os.fork()
    if not worker:
        server.close()
        connection.detach()  # open until the fork has ended, which the process that joined waits for
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        try:
            work(pipes)
        except KeyboardInterrupt:
            sys.exit(1)
        sys.exit()
    connection.close()
    for pipe in pipes:
        os.close(pipe)
    return worker


def work(pipes: list[int]) -> None:
    """Be the process of pytest-xdist at the other end of the pipes, until the tests have ended."""
    for pipe, number in zip(pipes, PIPES, strict=True):
        os.dup2(pipe, number)
        os.close(pipe)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - they stay until the end of the process
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
    sys.argv = ["-c"]
    exec(EXECNET, {"__name__": "__main__", "sys": sys})


def join(address: str) -> None:
    """Hand this process's pipes to a fork, and end when the fork has ended."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"."], PIPES)
        with contextlib.suppress(ConnectionError, KeyboardInterrupt):
            connection.recv(1)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == JOIN:
        join(sys.argv[2])
    else:
        use_jemalloc(*sys.argv[1:])
        sys.exit(main(*sys.argv[1:]))
