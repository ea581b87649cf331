"""Programs that run beside the others on a CPU.

XLA's client for the CPU lets the programs that one thread has queued run one after the other on a device,
whatever they depend on, and queues those of different threads beside each other. An evaluation leaves some
time of the cores over, and a picture's decoding some more: beside each other both need less.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class DecodeThread:
    """Calls programs from a thread of its own, one after the other, which ends with whoever holds this."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sdjax-beside")

    def __call__(self, program: Callable[..., Any], *arguments: Any) -> Any:
        """Queue a program; returns and raises what its call does."""
        return self._thread.submit(program, *arguments).result()


def call_directly(program: Callable[..., Any], *arguments: Any) -> Any:
    """Queue a program from the caller's thread: an accelerator has one line for all."""
    return program(*arguments)
