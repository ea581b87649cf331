"""Convolution kernels in the memory order that a GPU reads: other positions, the same numbers."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
from checkpoints import make_tiny_checkpoint

from sdjax_engine.weights import Component, load_checkpoint
from sdjax_engine.weights.networks import by_window, ordered_by_output


@pytest.mark.parametrize("shape", [(3, 3, 8, 16), (1, 3, 8, 16), (3, 3, 3, 3), (3, 3, 3, 8), (8, 16), (16,)])
def test_parameter_comes_back_from_a_gpus_order(shape: tuple[int, ...]) -> None:
    parameter = np.arange(np.prod(shape)).reshape(shape)

    np.testing.assert_array_equal(by_window(ordered_by_output(parameter), shape), parameter)


def test_network_whose_kernels_lie_as_a_gpu_reads_them_computes_the_same(tmp_path: Path) -> None:
    folder = str(make_tiny_checkpoint(tmp_path / "checkpoint"))
    usual, turned = (load_checkpoint(folder, by_output=each).components["vae"] for each in (False, True))
    latents = np.random.default_rng(0).standard_normal((1, 4, 5, 4)).astype(np.float32)

    def decoded(component: Component) -> np.ndarray:
        of_parameters = jax.jit(lambda parameters, x: component.module(parameters).decode(x))
        compiled = of_parameters.lower(component.parameters, latents).compile()
        return np.asarray(compiled(component.parameters, latents))

    key = "decoder.conv_in.kernel"
    assert turned.parameters[key].shape == tuple(usual.shapes[key][axis] for axis in (3, 0, 1, 2))
    assert turned.shapes == usual.shapes
    np.testing.assert_allclose(decoded(turned), decoded(usual), rtol=0, atol=1e-6)
