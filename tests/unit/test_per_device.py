"""A program on every device of a mesh: its results, and the independence of the devices."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import cache_of_jax
from jax.sharding import Mesh

from sdjax_engine.compiling.compiler import Compiler, Program
from sdjax_engine.compiling.per_device import PerDevice
from sdjax_engine.memory.devices import BY_SEAT, REPLICATED, mesh_over, replicate, shard

LONG = 60_000  # turns of the loop; a second or so
WIDTH = 64  # enough work that XLA returns from the call before it is done


@pytest.fixture(scope="module", autouse=True)
def no_cache() -> Iterator[None]:
    """JAX's own cache is off, because executables from it cannot be loaded on another device."""
    with cache_of_jax(enabled=False):
        yield


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return mesh_over(jax.devices()[:2])


@pytest.fixture(scope="module")
def program(mesh: Mesh) -> Program:
    return compiled(mesh, [])


def compiled(mesh: Mesh, said: list[str]) -> Program:
    """(step, x, turns) → x + turns · step, and turns."""

    def walk(step: jax.Array, x: jax.Array, turns: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.lax.fori_loop(0, turns[0], lambda _, x: x @ jnp.eye(WIDTH) + step, x), turns

    compiler = Compiler(mesh=mesh, report=said.append)
    arguments = replicate(np.float32(1), mesh), *given(mesh, (0, 0))
    return compiler.compile("walk", walk, *arguments, specs=(REPLICATED, BY_SEAT, BY_SEAT), donate=(1,))


def given(mesh: Mesh, turns: tuple[int, int]) -> tuple[jax.Array, jax.Array]:
    return shard(np.zeros((2, WIDTH, WIDTH), np.float32), mesh), shard(np.array(turns, np.int32), mesh)


def test_every_device_has_its_share(mesh: Mesh, program: Program) -> None:
    assert isinstance(program, PerDevice)
    x, turns = given(mesh, (2, 5))
    for step in (1, 10):
        walked, count = program(replicate(np.float32(step), mesh), x, turns)
        assert x.is_deleted() or all(shard.data.is_deleted() for shard in x.addressable_shards)
        np.testing.assert_array_equal(count, [2, 5])
        x = walked
    np.testing.assert_array_equal(np.asarray(x)[:, 0, 0], [22, 55])
    assert (x.shape, x.sharding) == (program.out_info[0].shape, program.out_info[0].sharding)


def test_the_rows_of_a_host_s_array_are_the_devices_in_turn(mesh: Mesh, program: Program) -> None:
    x, _ = given(mesh, (0, 0))
    walked, count = program(replicate(np.float32(1), mesh), x, np.array([2, 5], np.int32))
    np.testing.assert_array_equal(count, [2, 5])
    np.testing.assert_array_equal(np.asarray(walked)[:, 0, 0], [2, 5])


def test_a_finished_device_continues_while_another_works(mesh: Mesh, program: Program) -> None:
    step = replicate(np.float32(1), mesh)
    busy, _ = program(step, *given(mesh, (LONG, 1)))
    again, _ = program(step, busy, given(mesh, (0, 1))[1])
    mine = again.addressable_shards[1].data
    np.testing.assert_array_equal(np.asarray(mine)[0, 0, 0], 2)
    assert not again.is_ready()


def test_the_error_of_one_device_is_raised(mesh: Mesh, program: Program) -> None:
    x, turns = given(mesh, (1, 1))
    x.addressable_shards[1].data.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        program(replicate(np.float32(1), mesh), x, turns)


def test_parameters_are_held_by_their_owner_alone(mesh: Mesh, program: Program) -> None:
    step = replicate(np.float32(3), mesh)
    program(step, *given(mesh, (1, 1)))
    held = weakref.ref(step)
    del step
    gc.collect()
    assert held() is None


def test_a_program_is_forgotten_with_its_last_owner(mesh: Mesh) -> None:
    compiler = Compiler(mesh=mesh, report=lambda _line: None)
    arguments = given(mesh, (0, 0))
    made = compiler.compile("pass", lambda x, turns: (x, turns), *arguments, specs=(BY_SEAT, BY_SEAT))
    again = compiler.compile("pass", lambda x, turns: (x, turns), *arguments, specs=(BY_SEAT, BY_SEAT))
    assert made is again
    del made, again
    gc.collect()
    assert not compiler._programs
