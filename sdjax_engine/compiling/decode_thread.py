"""A thread for decoding on a CPU.

XLA's client for the CPU runs the programs that one thread has queued one after the other on a device,
whatever they depend on, and those of different threads in parallel. Denoising and decoding each leave cores
idle: running them at the same time uses both.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class DecodeThread:
    """Calls programs in a thread of its own, one after the other; the thread ends with this object."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sdjax-decode")

    def __call__(self, program: Callable[..., Any], *arguments: Any) -> Any:
        """Queue a program; returns and raises what its call does."""
        return self._thread.submit(program, *arguments).result()


def call_directly(program: Callable[..., Any], *arguments: Any) -> Any:
    """Queue a program from the caller's thread: an accelerator has one queue for all threads."""
    return program(*arguments)
