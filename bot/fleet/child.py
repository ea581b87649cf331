"""Runs a program that is asked to shut down when its parent dies: `python -m bot.fleet.child PID PROGRAM …`.

Linux sends the signal, however the parent ends. A worker then finishes its images, or gives them back.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, program: list[str]) -> None:
    """Become the program, unless the parent has died already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() == parent:
        os.execvp(program[0], program)  # noqa: S606 - the operator's configuration names the program


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
