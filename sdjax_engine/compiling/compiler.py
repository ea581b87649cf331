"""Programs made before anybody waits for them, and kept on disk between starts.

They are kept as executables (see `executables.py`), found without tracing by the code that made them on the
machine that made them, and by what was lowered by any other code. Where executables cannot be kept, JAX's
own cache serves.
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

import jax
import jax.monitoring
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.stages import Compiled, Lowered

from sdjax_engine.compiling.executables import Executables
from sdjax_engine.compiling.loaded_programs import LoadedProgram
from sdjax_engine.compiling.per_device import PerDevice
from sdjax_engine.compiling.serialized import NotSerialized, Serialized
from sdjax_engine.memory.devices import BY_SEAT, is_out_of_memory, mesh_over, runs_apart
from sdjax_engine.wording import first_line

Program = Compiled | LoadedProgram | PerDevice


class CompilingStopped(Exception):
    """Nothing is compiled any more: the engine closes."""


CACHE_ANSWERS = "/jax/compilation_cache/cache_"
CACHE_MISS = f"{CACHE_ANSWERS}misses"
CACHE_HIT = f"{CACHE_ANSWERS}hits"


def use_cache(folder: Path | None) -> list[str]:
    """Keep every compiled program of this process in `folder`; None leaves JAX as it is.

    Returns the lines to be said where this JAX's cache cannot be set up.
    """
    if folder is None:
        return []
    settings = {
        "jax_compilation_cache_dir": str(folder.absolute()),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    try:
        for name, value in settings.items():
            jax.config.update(name, value)  # type: ignore[no-untyped-call]
        from jax.experimental.compilation_cache import compilation_cache  # noqa: PLC0415 - may not be there

        compilation_cache.reset_cache()  # JAX opens the folder once, perhaps before now
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        return [f"JAX's own cache cannot be set up: {first_line(error)}"]
    return []


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A program before it is made: `function`, written for one device's share, over a whole mesh."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    mesh: Mesh
    specs: tuple[PartitionSpec, ...]
    donate: tuple[int, ...]
    facts: object
    options: Mapping[str, str]

    @property
    def key(self) -> Hashable:
        """What tells it from every other program for its mesh: equal keys, equal programs."""
        leaves, structure = jax.tree.flatten(self.arguments)
        shapes = tuple((leaf.shape, leaf.dtype, leaf.sharding.spec) for leaf in leaves)
        return self.name, structure, shapes, json.dumps([self.facts, self._how], sort_keys=True)

    def lowered(self) -> Lowered:
        """Trace and lower it."""
        lowered: Lowered = jax.jit(self._over_mesh(), donate_argnums=self.donate).lower(*self.arguments)
        return lowered

    def alone_on(self, mesh: Mesh) -> Wanted:
        """Return what one device's share of it is as a program for this mesh of one device."""

        def share(leaf: Any) -> jax.ShapeDtypeStruct:
            sharding = NamedSharding(mesh, leaf.sharding.spec)
            return jax.ShapeDtypeStruct(leaf.sharding.shard_shape(leaf.shape), leaf.dtype, sharding=sharding)  # type: ignore[no-untyped-call]

        return replace(self, arguments=jax.tree.map(share, self.arguments), mesh=mesh)

    @property
    def without_arrays(self) -> Wanted:
        """The same of shapes, which hold no memory."""

        def form(leaf: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)  # type: ignore[no-untyped-call]

        return replace(self, arguments=jax.tree.map(form, self.arguments))

    def place(self, executables: Executables) -> Path:
        """Return where it is kept."""
        return executables.place(self.name, self.facts, self.arguments, self._how, self.mesh)

    def place_of(self, lowered: Lowered, executables: Executables) -> Path:
        """Return where it is kept, found by what it was lowered to."""
        return executables.place_of(lowered, self._how, self.mesh)

    def _over_mesh(self) -> Callable[..., Any]:
        """Return the function over the whole mesh.

        What has no elements, as the LoRAs of a model without any, is made by each device and not handed to
        it: XLA's partitioner ends the process over such shares (jaxlib 0.11.2).
        """
        leaves: list[Any]
        structure: Any
        leaves, structure = jax.tree.flatten(self.arguments)
        counts = (len(jax.tree.leaves(tree)) for tree in self.arguments)
        specs = [spec for spec, count in zip(self.specs, counts, strict=True) for _ in range(count)]
        shapes = [(leaf.sharding.shard_shape(leaf.shape), leaf.dtype) for leaf in leaves]
        filled = [leaf.size > 0 for leaf in leaves]

        def share(*given: jax.Array) -> Any:
            each = iter(given)
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
    def _how(self) -> object:
        return [list(map(str, self.specs)), self.donate, sorted(self.options.items())]


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """Makes the programs of a start-up for one mesh, and tells of each when it is there.

    Several threads may compile at once: XLA uses one core for most of a program's compilation. A program that
    was made is not made again when it is asked for again (two lanes decode alike). A compilation that failed
    is not remembered. `executables` are those of earlier starts (None: none are kept).
    """

    mesh: Mesh
    report: Callable[[str], None]
    clock: Callable[[], float] = time.perf_counter
    executables: Executables | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _programs: dict[Hashable, Future[Program]] = field(default_factory=dict, init=False)
    _stopped: threading.Event = field(default_factory=threading.Event, init=False)

    def stop(self) -> None:
        """Begin with no further program: whoever asks for one gets CompilingStopped."""
        self._stopped.set()

    def compile(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        specs: tuple[PartitionSpec, ...],
        donate: tuple[int, ...] = (),
        facts: object = None,
        options: Mapping[str, str] | None = None,
        retry_shortage: bool = False,
    ) -> Program:
        """Return `function`, written for one device's share, as a program for the whole mesh.

        `arguments` are arrays like those of later calls, `specs` says how each is spread;
        every result is spread by seat. The arguments numbered in `donate` are used up by a call. `facts`,
        plain data, must tell apart all that `function` depends on beside its arguments and this package's
        source: a program that was made or kept before is recognized by everything but `function` itself.
        `options` are XLA's own, left out where it does not know them. With `retry_shortage` a compilation
        that runs out of memory is tried once more: other work may have needed the memory just then. Raises
        CompilingStopped.
        """
        wanted = Wanted(
            name=name,
            function=function,
            arguments=arguments,
            mesh=self.mesh,
            specs=specs,
            donate=donate,
            facts=facts,
            options=options or {},
        )
        key = wanted.key
        while not self._stopped.is_set():
            with self._lock:
                known = self._programs.get(key)
                if known is None:
                    mine = self._programs[key] = Future[Program]()
            if known is None:
                return self._made(wanted, mine, attempts=2 if retry_shortage else 1)
            if known.exception() is None:
                return known.result()
            # The thread that compiled it has been told why it failed; this one tries for itself.
        raise CompilingStopped

    def _made(self, wanted: Wanted, promised: Future[Program], *, attempts: int) -> Program:
        """Make a program and keep the promise of it; a promise that cannot be kept is withdrawn first."""
        started = self.clock()
        try:
            verb, program = self._attempted(wanted, attempts)
        except BaseException as error:
            with self._lock:
                del self._programs[wanted.key]
            promised.set_exception(error)
            raise
        promised.set_result(program)
        self.tell(f"{verb} {wanted.name} in {self.clock() - started:.1f} s")
        return program

    def _attempted(self, wanted: Wanted, attempts: int) -> tuple[str, Program]:
        """Return how a program was made, and the program, after as many shortages as there are attempts."""
        try:
            return self._make(wanted)
        except Exception as error:
            if attempts == 1 or not is_out_of_memory(error):
                raise
            self.tell(f"{wanted.name} could not be compiled for want of memory: trying again")
        return self._attempted(wanted, attempts - 1)

    def _make(self, wanted: Wanted) -> tuple[str, Program]:
        """Return how a program was made, and the program."""
        if not runs_apart(wanted.mesh):
            verb, [program] = self._made_on([wanted])
            return verb, program
        slices = [wanted.alone_on(mesh_over([device])) for device in wanted.mesh.devices.flat]
        verb, each = self._made_on(slices)
        return verb, PerDevice(each, wanted.mesh, wanted.specs)

    def _made_on(self, same: Sequence[Wanted]) -> tuple[str, list[Compiled | LoadedProgram]]:
        """Return how one program was made, and it on each of several like meshes.

        It is loaded as it is kept, or compiled for one of them, kept, and loaded on the others. What JAX's
        cache gives can be neither kept nor loaded: on a CPU it lacks the functions that it was linked with.
        """
        meshes = [wanted.mesh for wanted in same]
        place = None if self.executables is None else same[0].place(self.executables)
        if (loaded := self._read(place, meshes)) is not None:
            return "loaded", self._on_trial(loaded, same)
        lowered = same[0].lowered()
        known = None if self.executables is None else same[0].place_of(lowered, self.executables)
        if (loaded := self._read(known, meshes)) is not None:
            self._keep(same[0].name, known, place)
            return "loaded", self._on_trial(loaded, same)
        made: list[Compiled | LoadedProgram] = []
        for wanted in same:
            with cache_answers() as answers:
                compiled = compiled_with(wanted.options, wanted.lowered() if made else lowered)
            made.append(compiled)
            others = meshes[len(made) :]
            if not (is_fresh(answers) and (others or place)):
                continue
            try:
                serialized = Serialized.of(compiled)
                made += self._on_trial(serialized.on_all(others), same[len(made) :])
            except NotSerialized as error:
                self.tell(f"{wanted.name} can neither be kept nor copied: {error}")
            else:
                self._keep(wanted.name, known, place, serialized)
                break
        return "compiled", made

    def _on_trial(self, loaded: Sequence[Compiled], same: Sequence[Wanted]) -> list[Compiled | LoadedProgram]:
        """Return loaded programs so that each is compiled after all where it turns out not to work."""

        def compile_again(wanted: Wanted) -> Compiled:
            lowered = wanted.lowered()
            if self.executables is not None:  # the next start compiles it once more, and keeps that
                places = wanted.place(self.executables), wanted.place_of(lowered, self.executables)
                self.executables.remove(*places)
            return compiled_with(wanted.options, lowered)

        def on_trial(program: Compiled, wanted: Wanted) -> LoadedProgram:
            return LoadedProgram(
                program,
                partial(compile_again, wanted),
                lambda line: self.tell(f"{wanted.name} is {line}"),
            )

        forms = [wanted.without_arrays for wanted in same]
        return [on_trial(program, wanted) for program, wanted in zip(loaded, forms, strict=True)]

    def _read(self, place: Path | None, meshes: Sequence[Mesh]) -> list[Compiled] | None:
        return None if self.executables is None or place is None else self.executables.read(place, meshes)

    def _keep(
        self, name: str, known: Path | None, place: Path | None, made: Serialized | None = None
    ) -> None:
        """Let the next start find at `place` what is kept at `known`, or was `made` now."""
        if self.executables is None or known is None or place is None:
            return
        try:
            if made is not None:
                self.executables.keep(known, made)
            self.executables.name(known, place)
        except OSError as error:
            self.tell(f"{name} cannot be kept for the next start: {error}")

    def tell(self, line: str) -> None:
        """Report a line, one at a time."""
        with self._lock:
            self.report(line)


def working_memory(program: Program) -> int:
    """What each device needs to run a program beside its arguments, in bytes; 0 where it does not say."""
    says = program.memory_analysis()
    if says is None:
        return 0
    made = says.temp_size_in_bytes + says.output_size_in_bytes - says.alias_size_in_bytes
    return int(made + says.generated_code_size_in_bytes)


def compiled_with(options: Mapping[str, str], lowered: Lowered) -> Compiled:
    """Compile with XLA's `options`, or, where this JAX does not know one of them, without any."""
    try:
        return lowered.compile(dict(options))
    except jax.errors.JaxRuntimeError as error:
        if not options or "option" not in str(error):  # "No such compile option: …", "While setting option …"
            raise
        return lowered.compile()


@contextmanager
def cache_answers() -> Iterator[list[str]]:
    """Collect what JAX's cache answers this thread."""
    thread, answers = threading.get_ident(), list[str]()

    def listen(event: str, **_details: object) -> None:
        if event.startswith(CACHE_ANSWERS) and threading.get_ident() == thread:
            answers.append(event)

    jax.monitoring.register_event_listener(listen)
    try:
        yield answers
    finally:
        jax.monitoring.unregister_event_listener(listen)


def is_fresh(answers: Sequence[str]) -> bool:
    """Whether a program was certainly compiled, and is not from JAX's cache, which gave these `answers`.

    A JAX that names its events otherwise gives none that are known: the program then counts as the cache's.
    """
    settings = jax.config.values
    in_use = settings.get("jax_compilation_cache_dir") and settings.get("jax_enable_compilation_cache", True)
    return not in_use or (CACHE_MISS in answers and CACHE_HIT not in answers)
