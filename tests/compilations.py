"""What JAX traces, lowers and compiles while something is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax.monitoring

PREFIX = "/jax/core/compile/"


@contextmanager
def counted_compilations() -> Iterator[list[str]]:
    """Collect what is traced, lowered or compiled meanwhile, by any thread."""
    made: list[str] = []

    def listen(name: str, _seconds: float, **details: object) -> None:
        if name.startswith(PREFIX):
            made.append(f"{name.removeprefix(PREFIX)} {details.get('fun_name', '')}")

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield made
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
