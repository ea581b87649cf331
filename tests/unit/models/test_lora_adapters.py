"""An adapter adds to a layer the result of the weights' difference up · down."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from flax import nnx

from sdjax_engine.models.layers import Conv, Linear, Shared, conv, linear
from sdjax_engine.models.lora import attach, layers_of
from sdjax_engine.models.lora_bank import Factors, shape_of

ROWS = 5
Array = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def network() -> nnx.Dict[nnx.Module]:
    """One layer of each form that the networks have."""
    shared = Shared(dtype=jnp.float32)
    layers = nnx.Dict(
        dense=linear(6, 3, shared),
        blocks=nnx.List([linear(6, 4, shared, bias=False)]),
        same=conv(6, 4, shared),
        halving=conv(6, 4, shared, stride=2, padding=1),
        uneven=conv(6, 4, shared, stride=2, padding=((0, 1), (0, 1))),
    )
    shapes = nnx.state(layers)
    nnx.update(layers, jax.tree.map(lambda shape: jnp.asarray(random(*shape.shape, seed=3)), shapes))
    return layers


def random(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def factors_for(layer: Linear | Conv) -> Factors:
    shape = shape_of(layer.kernel.shape)
    down = random(ROWS, *shape.window, shape.width_in, seed=1)
    up = random(ROWS, shape.width_out, seed=2)
    down[0], up[0] = 0, 0
    return Factors(down=jnp.asarray(down), up=jnp.asarray(up))


def run(
    network: nnx.Module,
    bank: Mapping[str, Factors],
    rows: npt.ArrayLike,
    scales: npt.ArrayLike,
    x: Array,
) -> dict[str, Array]:
    """Each layer's result for `x` with these LoRAs; the module is merged within `jit`, as in the engine."""
    graphdef, state = nnx.split(network)

    def made(state: nnx.State, bank: Mapping[str, Factors], rows: jax.Array, scales: jax.Array) -> object:
        adapted = attach(nnx.merge(graphdef, state), bank, rows, scales)
        return {name: layer(jnp.asarray(x)) for name, layer in layers_of(adapted).items()}

    results = jax.jit(made)(state, bank, jnp.asarray(rows, jnp.int32), jnp.asarray(scales, jnp.float32))
    return {name: np.asarray(result) for name, result in results.items()}


def with_difference(
    network: nnx.Module, bank: Mapping[str, Factors], rows: Array, scales: Array
) -> nnx.Module:
    """The same network with the LoRAs' difference in its kernels (*window, in, out)."""
    changed = nnx.clone(network)
    for name, layer in layers_of(changed).items():
        down, up = (np.asarray(each)[rows] for each in bank[name])
        difference = np.einsum("r...i,ro->...io", down, up * scales[:, None])
        layer.kernel[...] += difference
    return changed


def test_each_seat_has_its_own_loras(network: nnx.Module) -> None:
    """Two seats with two rows of the batch each, as with guidance; the second has one LoRA only."""
    rows = np.array([[1, 3, 4], [2, 0, 0]])
    scales = np.array([[0.5, -1.0, 2.0], [1.5, 0.0, 0.0]], np.float32)
    bank = {name: factors_for(layer) for name, layer in layers_of(network).items()}
    x = random(4, 7, 5, 6, seed=3)
    adapted = run(network, bank, rows, scales, x)
    for seat in range(2):
        its = slice(2 * seat, 2 * seat + 2)
        merged = run(with_difference(network, bank, rows[seat], scales[seat]), {}, [[0]], [[0]], x)
        for name, result in adapted.items():
            np.testing.assert_allclose(result[its], merged[name][its], rtol=1e-4, atol=1e-4, err_msg=name)


def test_row_zero_adds_exactly_nothing(network: nnx.Module) -> None:
    x = random(2, 7, 5, 6, seed=3)
    bank = {name: factors_for(layer) for name, layer in layers_of(network).items()}
    plain, adapted = run(network, {}, [[0]], [[0]], x), run(network, bank, [[0] * 3] * 2, [[0] * 3] * 2, x)
    for name, result in adapted.items():
        np.testing.assert_array_equal(result, plain[name])
