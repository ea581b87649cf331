"""Programs: the inputs of each device, and which programs are compiled once or again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.stages import Compiled, Lowered
from jaxprs import equations

from sdjax_engine.compiling.compiler import Compiler, Program, ProgramSpec, compiled_with
from sdjax_engine.memory.devices import BY_SEAT, REPLICATED, mesh_over, replicate, shard

Pair = tuple[jax.Array, jax.Array]
DEADLINE = 20.0


@pytest.fixture
def mesh() -> Mesh:
    return mesh_over(jax.devices()[:2])


def test_empty_arrays_are_created_on_each_device(mesh: Mesh) -> None:
    """The partitioner of jaxlib 0.11.2 ends the process if the shards of an array are empty."""

    def step(by: jax.Array, seats: Pair) -> Pair:
        x, nothing = seats
        return x + by + jnp.sum(nothing, axis=1, keepdims=True), nothing

    def given() -> tuple[jax.Array, Pair]:
        return (
            replicate(np.float32(2), mesh),
            (shard(np.ones((4, 3), np.float32), mesh), shard(np.ones((4, 0), np.float32), mesh)),
        )

    wanted = ProgramSpec(
        name="step",
        function=step,
        arguments=given(),
        mesh=mesh,
        specs=(REPLICATED, BY_SEAT),
        donate=(1,),
        key=None,
        options={},
    )
    traced = jax.make_jaxpr(wanted._over_mesh())(*given())
    [over] = [each for each in equations(traced.jaxpr) if each.primitive.name == "shard_map"]
    assert [each.aval.shape for each in over.invars] == [(), (4, 3)]
    x, nothing = compiled_with({}, wanted.lowered())(*given())
    np.testing.assert_array_equal(x, np.full((4, 3), 3.0))
    assert (nothing.shape, nothing.sharding) == ((4, 0), x.sharding)


SHORTAGE = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes."
Double = Callable[..., Program]


def double(given: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    return {name: 2 * rows for name, rows in given.items()}


@pytest.fixture
def compiler() -> Compiler:
    return Compiler(mesh=mesh_over(jax.devices()[:1]), report=lambda _line: None)


@pytest.fixture
def make(compiler: Compiler) -> Double:
    """Asks for the program `double` of rows by their names."""

    def make(names: str = "a", **how: Any) -> Program:
        rows = {name: shard(np.ones((1, 3), np.float32), compiler.mesh) for name in names}
        return compiler.compile("double", double, rows, specs=(BY_SEAT,), **how)

    return make


@dataclass
class Shortage:
    """Makes one compilation run out of memory; `before` is called just before the error."""

    left: int = 1
    before: Callable[[], object] = lambda: None


@pytest.fixture
def shortage(monkeypatch: pytest.MonkeyPatch) -> Shortage:
    short, compile_really = Shortage(), Lowered.compile

    def compile_or_fail(lowered: Lowered, *options: Any) -> Compiled:
        if not short.left:
            return compile_really(lowered, *options)
        short.left -= 1
        short.before()
        raise jax.errors.JaxRuntimeError(SHORTAGE)

    monkeypatch.setattr(Lowered, "compile", compile_or_fail)
    return short


def test_a_failed_compilation_does_not_fail_for_other_waiting_threads(
    make: Double, shortage: Shortage, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()

    class Watched(Future[Any]):
        def exception(self, timeout: float | None = None) -> BaseException | None:
            waits.set()
            return super().exception(timeout)

        def result(self, timeout: float | None = None) -> Any:
            waits.set()
            return super().result(timeout)

    monkeypatch.setattr("sdjax_engine.compiling.compiler.Future", Watched)
    with ThreadPoolExecutor(1) as pool:
        others: list[Future[Program]] = []

        def let_another_thread_ask() -> None:
            others.append(pool.submit(make))
            assert waits.wait(DEADLINE)

        shortage.before = let_another_thread_ask
        with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
            make()
        [other] = others
        assert other.result(DEADLINE) is make()


@pytest.mark.parametrize(
    "how",
    [
        {"key": ["another", {"size": 1}]},
        {"donate": (0,)},
        {"options": {"xla_backend_optimization_level": "0"}},
        {"names": "b"},
    ],
    ids=lambda how: next(iter(how)),
)
def test_programs_of_one_name_and_shape_with_other_keys_are_different(
    how: dict[str, Any], make: Double
) -> None:
    assert make() is make()
    assert make(**how) is make(**how)
    assert make(**how) is not make()
    given = {name: np.ones((1, 3), np.float32) for name in how.get("names", "a")}
    assert make(**how)(given).keys() == given.keys()
