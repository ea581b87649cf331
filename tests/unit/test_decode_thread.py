"""Programs that run in parallel with those of the engine's own thread on a CPU."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from sdjax_engine.compiling.per_device import DaemonThread

DEADLINE = 30.0


@jax.jit
def multiply(times: jax.Array) -> jax.Array:
    """Multiply so many times; the number decides how long this program runs."""
    square = jnp.eye(64)
    product: jax.Array = jax.lax.fori_loop(0, times, lambda _, product: product @ square, square)
    return product


@jax.jit
def twice(x: jax.Array) -> jax.Array:
    return x * 2


@pytest.fixture(scope="module")
def seconds() -> Callable[[float], jax.Array]:
    """Return a function from seconds to the number of multiplications."""
    some = 10_000
    jax.block_until_ready(multiply(jnp.int32(some)))
    began = time.perf_counter()
    jax.block_until_ready(multiply(jnp.int32(some)))
    rate = some / (time.perf_counter() - began)
    return lambda wanted: jnp.int32(rate * wanted)


def test_a_later_program_overtakes_one_of_the_decode_thread(seconds: Callable[[float], jax.Array]) -> None:
    """Queued from one thread, the later program would wait for the earlier one."""
    picture = jnp.ones((256, 256))
    jax.block_until_ready(twice(picture))  # compiled
    under_way = DaemonThread("decodes").submit(multiply, seconds(1.5)).result()
    jax.block_until_ready(twice(picture))
    assert not under_way.is_ready()


def test_a_call_returns_and_raises_what_the_program_does() -> None:
    thread = DaemonThread("decodes")

    def queue(program: Callable[..., Any], *arguments: Any) -> Any:
        return thread.submit(program, *arguments).result()

    def fail() -> None:
        raise ValueError("no such program")

    assert queue(lambda *numbers: sum(numbers), 1, 2) == 3
    with pytest.raises(ValueError, match="no such program"):
        queue(fail)
    assert queue(threading.get_ident) == queue(threading.get_ident)


def test_a_decoding_that_hangs_does_not_hold_up_the_exit_of_the_process() -> None:
    script = """
import time
from sdjax_engine.compiling.per_device import DaemonThread

DaemonThread("hangs").submit(time.sleep, 999)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=DEADLINE)


def test_the_decode_thread_is_separate_and_ends_with_its_owner() -> None:
    owner = DaemonThread("decodes")
    thread = owner.submit(threading.current_thread).result()
    assert thread is not threading.current_thread()
    del owner
    gc.collect()
    thread.join(DEADLINE)
    assert not thread.is_alive()
