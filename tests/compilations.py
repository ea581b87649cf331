"""Counts traces, lowerings and compilations of JAX, and sets JAX's cache and settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.monitoring
from jax.experimental.compilation_cache import compilation_cache

PREFIX = "/jax/core/compile/"


@contextmanager
def counted_compilations() -> Iterator[list[str]]:
    """Collect the traces, lowerings and compilations of all threads within the context."""
    made: list[str] = []

    def listen(name: str, _seconds: float, **details: object) -> None:
        if name.startswith(PREFIX):
            made.append(f"{name.removeprefix(PREFIX)} {details.get('fun_name', '')}")

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield made
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


@contextmanager
def application(**settings: object) -> Iterator[None]:
    """Set settings of JAX for the whole process, as a host application does."""
    before = {name: jax.config.values[name] for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


@contextmanager
def cache_of_jax(*, enabled: bool) -> Iterator[None]:
    """Turn JAX's own cache on or off, and on again afterwards."""
    _set_cache(enabled)
    try:
        yield
    finally:
        _set_cache(True)


def _set_cache(enabled: bool) -> None:
    jax.config.update("jax_enable_compilation_cache", enabled)
    compilation_cache.reset_cache()  # JAX checks only once whether it has a cache


def use_cache_of_jax(folder: Path) -> None:
    """Set up JAX's own cache for the whole process, as an application may do."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    compilation_cache.reset_cache()  # JAX opens the folder only once, possibly earlier
