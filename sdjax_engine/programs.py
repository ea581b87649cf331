"""Programs compiled before anybody waits for them, and kept on disk between starts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import Mesh, PartitionSpec

from sdjax_engine.devices import BY_SEAT

Program = Callable[..., Any]


def use_cache(folder: Path | None) -> None:
    """Keep every compiled program of this process in `folder`; None leaves JAX as it is."""
    if folder is None:
        return
    settings = {
        "jax_compilation_cache_dir": str(folder.absolute()),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    compilation_cache.reset_cache()  # JAX opens the folder once, perhaps before now


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """Compiles the programs of a start-up for one mesh, and tells of each when it is done.

    Several threads may compile at once: XLA uses one core for most of a program's compilation. A program is
    known by its name: asked for again (two lanes decode alike), it is not compiled again.
    """

    mesh: Mesh
    report: Callable[[str], None]
    clock: Callable[[], float] = time.perf_counter
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _programs: dict[str, Future[Program]] = field(default_factory=dict, init=False)

    def compile(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        specs: tuple[PartitionSpec, ...],
        donate: tuple[int, ...] = (),
    ) -> Program:
        """Return `function`, written for one device's share, as a program for the whole mesh.

        `arguments` are arrays of the whole mesh like those of later calls, `specs` says how each is spread;
        every result is spread by seat. The arguments numbered in `donate` are used up by a call.
        """
        with self._lock:
            known = self._programs.get(name)
            if known is None:
                mine = self._programs[name] = Future[Program]()
        if known is not None:
            return known.result()
        started = self.clock()
        spread = jax.shard_map(function, mesh=self.mesh, in_specs=specs, out_specs=BY_SEAT, check_vma=False)
        try:
            program: Program = jax.jit(spread, donate_argnums=donate).lower(*arguments).compile()
        except Exception as error:
            mine.set_exception(error)
            raise
        mine.set_result(program)
        with self._lock:
            self.report(f"compiled {name} in {self.clock() - started:.1f} s")
        return program
