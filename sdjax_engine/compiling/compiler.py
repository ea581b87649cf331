"""Compiles programs ahead of their first call, and keeps them on disk between starts.

The docstring of this package says which layer of kept programs answers when.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import jax
import jax.monitoring
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.stages import Compiled, Lowered

from sdjax_engine.compiling.executables import Executables, NotSerialized, Serialized
from sdjax_engine.compiling.per_device import PerDevice
from sdjax_engine.memory.devices import (
    BY_SEAT,
    device_count,
    is_out_of_memory,
    mesh_over,
    one_program_per_device,
)

Program = Compiled | PerDevice
ProgramKey = tuple[str, Hashable, Hashable, str]
"""A program's name, the structure and the shapes of its arguments, and the rest of what it depends on."""


class CompilingStopped(Exception):
    """No program is compiled any more, because the engine closes."""


CACHE_EVENTS = "/jax/compilation_cache/cache_"
CACHE_MISS = f"{CACHE_EVENTS}misses"
CACHE_HIT = f"{CACHE_EVENTS}hits"


@dataclass(frozen=True, kw_only=True)
class ProgramSpec:
    """What a program for `mesh` is compiled from; `function` is written for one device's share."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    mesh: Mesh
    specs: tuple[PartitionSpec, ...]
    donate: tuple[int, ...]
    key: object
    options: Mapping[str, str]
    apart: bool = False

    @property
    def program_key(self) -> ProgramKey:
        """The key of the program among those for its mesh."""
        leaves, structure = jax.tree.flatten(self.arguments)
        shapes = tuple((leaf.shape, leaf.dtype, leaf.sharding.spec) for leaf in leaves)
        return self.name, structure, shapes, json.dumps([self.key, self._spread], sort_keys=True)

    def lowered(self) -> Lowered:
        """Trace and lower it."""
        lowered: Lowered = jax.jit(self._over_mesh(), donate_argnums=self.donate).lower(*self.arguments)
        return lowered

    def alone_on(self, mesh: Mesh) -> ProgramSpec:
        """Return one device's share of it as a program for this mesh of one device."""

        def share(leaf: Any) -> jax.ShapeDtypeStruct:
            sharding = NamedSharding(mesh, leaf.sharding.spec)
            return jax.ShapeDtypeStruct(leaf.sharding.shard_shape(leaf.shape), leaf.dtype, sharding=sharding)  # type: ignore[no-untyped-call]

        return replace(self, arguments=jax.tree.map(share, self.arguments), mesh=mesh)

    def path_by_code(self, executables: Executables) -> Path:
        """Return its file, found without tracing."""
        return executables.path_by_code(self.name, self.key, self.arguments, self._spread, self.mesh)

    def path_by_lowering(self, lowered: Lowered, executables: Executables) -> Path:
        """Return its file, found by the lowered program."""
        return executables.path_by_lowering(lowered, self._spread, self.mesh)

    def _over_mesh(self) -> Callable[..., Any]:
        """Return the function over the whole mesh.

        Arrays without elements, such as the LoRAs of a model without any, are made within the program and
        not passed to it: such an argument makes XLA's partitioner crash the process (jaxlib 0.11.2).
        """
        leaves: list[Any]
        structure: Any
        leaves, structure = jax.tree.flatten(self.arguments)
        counts = (len(jax.tree.leaves(tree)) for tree in self.arguments)
        specs = [spec for spec, count in zip(self.specs, counts, strict=True) for _ in range(count)]
        shapes = [(leaf.sharding.shard_shape(leaf.shape), leaf.dtype) for leaf in leaves]
        filled = [leaf.size > 0 for leaf in leaves]

        def share(*filled_arrays: jax.Array) -> Any:
            each = iter(filled_arrays)
            whole = [next(each) if some else jnp.zeros(*of) for some, of in zip(filled, shapes, strict=True)]
            return self.function(*structure.unflatten(whole))

        over = jax.shard_map(
            share,
            mesh=self.mesh,
            in_specs=tuple(compress(specs, filled)),
            out_specs=BY_SEAT,
            check_vma=False,
        )

        def program(*arguments: Any) -> Any:
            return over(*compress(jax.tree.leaves(arguments), filled))

        function = self.function.func if isinstance(self.function, partial) else self.function
        program.__name__ = function.__name__  # which profiles and the lowered module show
        return program

    @property
    def _spread(self) -> object:
        return [list(map(str, self.specs)), self.donate, sorted(self.options.items())]


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """Compiles the programs for one mesh, and reports each.

    Several threads may compile at once: XLA uses one core for most of a program's compilation. While somebody
    has a program, an equal one is not compiled again (lanes of one size share their decoding). A compilation
    that failed may be tried again. `executables` are those of earlier starts (None: none are kept).

    The programs of this process save a further lane of one size 4.3 s of processor time with the demo. A
    program's key has its name, the shapes and places of its arguments, and the `key` of its caller.
    """

    mesh: Mesh
    report: Callable[[str], None]
    clock: Callable[[], float] = time.perf_counter
    executables: Executables | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _programs: WeakValueDictionary[ProgramKey, Program] = field(
        default_factory=WeakValueDictionary, init=False
    )
    _under_way: dict[ProgramKey, Future[Program]] = field(default_factory=dict, init=False)
    _stopped: threading.Event = field(default_factory=threading.Event, init=False)

    def stop(self) -> None:
        """Compile no further program: `compile` raises CompilingStopped from now on."""
        self._stopped.set()

    def compile(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        specs: tuple[PartitionSpec, ...],
        donate: tuple[int, ...] = (),
        key: object = None,
        options: Mapping[str, str] | None = None,
        apart: bool = False,
        retry_shortage: bool = False,
    ) -> Program:
        """Return `function`, written for one device's share, as a program for the whole mesh.

        `arguments` are arrays or shapes like the arguments of later calls, `specs` says how each is spread;
        every result is spread by seat. A call uses up the arguments numbered in `donate`. `key`, plain
        data, must contain everything that `function` depends on besides its arguments and this package's
        source: `function` itself is no part of a program's key. `options` are XLA's, and left out where
        XLA does not know them. With `apart` each of several devices has its own program, for `call_on`. With
        `retry_shortage` a compilation that runs out of memory is tried once more: other work may have needed
        the memory. Raises CompilingStopped.
        """
        spec = ProgramSpec(
            name=name,
            function=function,
            arguments=arguments,
            mesh=self.mesh,
            specs=specs,
            donate=donate,
            key=key,
            options=options or {},
            apart=apart,
        )
        program_key = spec.program_key
        while not self._stopped.is_set():
            with self._lock:
                if (known := self._programs.get(program_key)) is not None:
                    return known
                under_way = self._under_way.get(program_key)
                if under_way is None:
                    mine = self._under_way[program_key] = Future[Program]()
            if under_way is None:
                return self._made(spec, mine, attempts=2 if retry_shortage else 1)
            if under_way.exception() is None:
                return under_way.result()
            # The thread that compiled it has raised the error; this thread tries again.
        raise CompilingStopped

    def _made(self, spec: ProgramSpec, promised: Future[Program], *, attempts: int) -> Program:
        """Load or compile a program, and give it to the threads that wait for `promised`."""
        started = self.clock()
        try:
            verb, program = self._attempted(spec, attempts)
        except BaseException as error:
            with self._lock:
                del self._under_way[spec.program_key]
            promised.set_exception(error)
            raise
        with self._lock:
            self._programs[spec.program_key] = program
            del self._under_way[spec.program_key]
        promised.set_result(program)
        self.tell(f"{verb} {spec.name} in {self.clock() - started:.1f} s")
        return program

    def _attempted(self, spec: ProgramSpec, attempts: int) -> tuple[str, Program]:
        """Return "loaded" or "compiled", and the program; a shortage of memory uses up one attempt."""
        try:
            return self._make(spec)
        except Exception as error:
            if attempts == 1 or not is_out_of_memory(error):
                raise
            self.tell(f"{spec.name} could not be compiled for want of memory: trying again")
        return self._attempted(spec, attempts - 1)

    def _make(self, spec: ProgramSpec) -> tuple[str, Program]:
        """Return "loaded" or "compiled", and the program."""
        apart = one_program_per_device(spec.mesh) or (spec.apart and device_count(spec.mesh) > 1)
        if not apart:
            verb, [program] = self._made_on([spec])
            return verb, program
        slices = [spec.alone_on(mesh_over([device])) for device in spec.mesh.devices.flat]
        verb, each = self._made_on(slices)
        return verb, PerDevice(each, spec.mesh)

    def _made_on(self, same: Sequence[ProgramSpec]) -> tuple[str, list[Compiled]]:
        """Return "loaded" or "compiled", and one program on each of several like meshes.

        The program is loaded from its file, or compiled for the first mesh, kept, and loaded on the others.
        A program from JAX's own cache, which an application may use, can be neither kept nor copied: on a CPU
        it lacks the functions that it was linked with.
        """
        meshes = [spec.mesh for spec in same]
        by_code = None if self.executables is None else same[0].path_by_code(self.executables)
        if (loaded := self._read(by_code, meshes)) is not None:
            return "loaded", loaded
        lowered = same[0].lowered()
        by_lowering = (
            None if self.executables is None else same[0].path_by_lowering(lowered, self.executables)
        )
        if (loaded := self._read(by_lowering, meshes)) is not None:
            self._keep(same[0].name, by_lowering, by_code)
            return "loaded", loaded
        made: list[Compiled] = []
        for spec in same:
            with jax_cache_events() as events:
                compiled = compiled_with(spec.options, spec.lowered() if made else lowered)
            made.append(compiled)
            others = meshes[len(made) :]
            if not (was_compiled(events) and (others or by_code)):
                continue
            try:
                serialized = Serialized.of(compiled)
                made += serialized.on_all(others)
            except NotSerialized as error:
                self.tell(f"{spec.name} can neither be kept nor copied: {error}")
            else:
                self._keep(spec.name, by_lowering, by_code, serialized)
                break
        return "compiled", made

    def _read(self, by_code: Path | None, meshes: Sequence[Mesh]) -> list[Compiled] | None:
        return None if self.executables is None or by_code is None else self.executables.read(by_code, meshes)

    def _keep(
        self, name: str, by_lowering: Path | None, by_code: Path | None, made: Serialized | None = None
    ) -> None:
        """Keep a program that was `made` at `by_lowering`, and link it at `by_code`."""
        if self.executables is None or by_lowering is None or by_code is None:
            return
        try:
            if made is not None:
                self.executables.keep(by_lowering, made)
            self.executables.link(by_lowering, by_code)
        except OSError as error:
            self.tell(f"{name} cannot be kept for the next start: {error}")

    def tell(self, line: str) -> None:
        """Report a line; lines of several threads do not mix."""
        with self._lock:
            self.report(line)


def working_memory(program: Program) -> int:
    """Return the memory that each device needs while a program runs, besides its arguments, in bytes.

    It is 0 where XLA does not say.
    """
    says = program.memory_analysis()
    if says is None:
        return 0
    return int(says.temp_size_in_bytes + says.output_size_in_bytes - says.alias_size_in_bytes)


def code_memory(program: Program) -> int:
    """Return the memory of each device for a program's code, in bytes; 0 where XLA does not say.

    A TPU holds it as long as the program is loaded.
    """
    says = program.memory_analysis()
    return 0 if says is None else int(says.generated_code_size_in_bytes)


def compiled_with(options: Mapping[str, str], lowered: Lowered) -> Compiled:
    """Compile with XLA's `options`, or without any where this version does not know one of them."""
    try:
        return lowered.compile(dict(options))
    except jax.errors.JaxRuntimeError as error:
        if not options or "option" not in str(error):  # "No such compile option: …", "While setting option …"
            raise
        return lowered.compile()


@contextmanager
def jax_cache_events() -> Iterator[list[str]]:
    """Collect the events of JAX's cache in this thread."""
    thread, events = threading.get_ident(), list[str]()

    def listen(event: str, **_details: object) -> None:
        if event.startswith(CACHE_EVENTS) and threading.get_ident() == thread:
            events.append(event)

    jax.monitoring.register_event_listener(listen)
    try:
        yield events
    finally:
        jax.monitoring.unregister_event_listener(listen)


def was_compiled(events: Sequence[str]) -> bool:
    """Whether a program was certainly compiled and is not from JAX's cache, by the cache's `events`.

    A version of JAX with other names for its events gives none: the program then counts as the cache's.
    """
    settings = jax.config.values
    in_use = settings.get("jax_compilation_cache_dir") and settings.get("jax_enable_compilation_cache", True)
    return not in_use or (CACHE_MISS in events and CACHE_HIT not in events)
