"""A program over several devices: what each of them is handed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jaxprs import equations

from sdjax_engine.devices import BY_SEAT, REPLICATED, mesh_over, replicate, shard
from sdjax_engine.programs import Wanted, compiled_with

Pair = tuple[jax.Array, jax.Array]


@pytest.fixture
def mesh() -> Mesh:
    return mesh_over(jax.devices()[:2])


def test_what_has_no_elements_is_made_by_each_device_and_not_handed_to_it(mesh: Mesh) -> None:
    """The partitioner of jaxlib 0.11.2 ends the process over shares of nothing."""

    def step(by: jax.Array, seats: Pair) -> Pair:
        x, nothing = seats
        return x + by + jnp.sum(nothing, axis=1, keepdims=True), nothing

    def given() -> tuple[jax.Array, Pair]:
        return (
            replicate(np.float32(2), mesh),
            (shard(np.ones((4, 3), np.float32), mesh), shard(np.ones((4, 0), np.float32), mesh)),
        )

    wanted = Wanted(
        name="step",
        function=step,
        arguments=given(),
        mesh=mesh,
        specs=(REPLICATED, BY_SEAT),
        donate=(1,),
        facts=None,
        options={},
    )
    traced = jax.make_jaxpr(wanted._over_mesh())(*given())
    [over] = [each for each in equations(traced.jaxpr) if each.primitive.name == "shard_map"]
    assert [each.aval.shape for each in over.invars] == [(), (4, 3)]
    x, nothing = compiled_with({}, wanted.lowered())(*given())
    np.testing.assert_array_equal(x, np.full((4, 3), 3.0))
    assert (nothing.shape, nothing.sharding) == ((4, 0), x.sharding)
