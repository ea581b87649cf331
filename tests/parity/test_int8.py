"""INT8 weights against the same networks with the rounded weights, and with the weights themselves.

The networks are those of Z-Image, FLUX.2 klein and SD 3.5, read from files. The differences are parts of the
largest value of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flux2_klein_files import make_tiny_flux2_klein
from networks import Array, noise
from sd3_files import make_tiny_sd3
from z_image_files import make_tiny_z_image

from sdjax_engine.models.layers import Linear
from sdjax_engine.request import Int8
from sdjax_engine.weights import Checkpoint, load_checkpoint
from sdjax_engine.weights.load import in_host_memory
from sdjax_engine.weights.tensors import KERNEL_SCALE

pytestmark = pytest.mark.parity

OF_ROUNDED = 1e-5
"""The most that a result may differ from that of the rounded weights in float32."""
MORE_IN_BFLOAT16 = 1.5
"""How many times as much as without INT8 a result in bfloat16 may differ from that in float32."""
OF_TRUE = {"Z-Image": 2e-2, "FLUX.2 klein": 0.15, "SD 3.5": 6e-2}
"""The most that it may differ from that of the weights: klein's text encoder has 27 random layers."""
LENGTH = 64
COUNTED = np.array([33], np.int32)
MAKE = {"Z-Image": make_tiny_z_image, "FLUX.2 klein": make_tiny_flux2_klein, "SD 3.5": make_tiny_sd3}
Results = Mapping[str, Array]
"""The states of a text, and a prediction for it."""


@pytest.fixture(scope="module", params=MAKE)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return MAKE[family](tmp_path_factory.mktemp("int8") / "checkpoint")


def read(
    folder: Path, int8: tuple[Int8, ...] = tuple(Int8), *, dtype: str = "float32", **more: Any
) -> Checkpoint:
    return load_checkpoint(str(folder), int8=int8, dtype=dtype, put=in_host_memory, **more)


def arrays_of(checkpoint: Checkpoint) -> dict[str, dict[str, Array]]:
    return {name: dict(each.parameters) for name, each in checkpoint.components.items()}  # type: ignore[arg-type]


def rounded(arrays: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Array]]:
    """The parameters as they would be without INT8, but with the weights that INT8 stands for."""
    found: dict[str, dict[str, Array]] = {}
    for name, parameters in arrays.items():
        found[name] = {key: each for key, each in parameters.items() if not key.endswith(KERNEL_SCALE)}
        for key, scale in parameters.items():
            if key.endswith(KERNEL_SCALE):
                kernel = key.removesuffix("_scale")
                assert parameters[kernel].dtype == np.int8
                found[name][kernel] = parameters[kernel].astype(np.float32) * scale
    return found


def computed(checkpoint: Checkpoint, arrays: Mapping[str, Mapping[str, Any]]) -> Results:
    """Return the states of a text, and what the transformer predicts with them."""
    texts = max(name for name in checkpoint.components if name.startswith("text_encoder"))  # T5 is the third
    encoder, transformer = (checkpoint.components[name] for name in (texts, "transformer"))
    channels = transformer.config["in_channels"]
    ids = np.random.default_rng(2).integers(0, encoder.config["vocab_size"], (1, LENGTH)).astype(np.int32)

    def compute(arrays: Mapping[str, Any]) -> dict[str, jax.Array]:
        encode, predict = (
            checkpoint.components[name].module(arrays[name]) for name in (texts, "transformer")
        )
        sample, time = jnp.asarray(noise(1, 6, 8, channels)), jnp.array([0.4], jnp.float32)
        if checkpoint.pipeline.startswith("Flux2"):
            states = encode(ids, COUNTED)
            return {"states": states, "prediction": predict(sample, 1000 * time, predict.read(states))}
        states = encode(ids)
        if checkpoint.pipeline.startswith("StableDiffusion3"):
            prompt = predict.read(states, jnp.asarray(noise(1, transformer.config["pooled_projection_dim"])))
            return {"states": states, "prediction": predict(sample, 1000 * time, prompt)}
        return {"states": states, "prediction": predict(sample, time, predict.read(states, COUNTED))}

    return {name: np.asarray(each, np.float32) for name, each in jax.jit(compute)(arrays).items()}


def difference(ours: Results, theirs: Results) -> float:
    """The largest difference of the states, or of the prediction."""
    return max(float(np.abs(ours[name] - theirs[name]).max() / np.abs(theirs[name]).max()) for name in theirs)


def test_int8_weights_give_the_results_of_the_rounded_weights_and_nearly_those_of_the_true(
    family: str, folder: Path
) -> None:
    true, int8 = read(folder, ()), read(folder)
    in_float32 = computed(true, rounded(arrays_of(int8)))
    assert difference(computed(int8, arrays_of(int8)), in_float32) <= OF_ROUNDED
    of_true = difference(in_float32, computed(true, arrays_of(true)))
    assert 10 * OF_ROUNDED < of_true <= OF_TRUE[family]


def test_int8_weights_lose_nothing_more_in_bfloat16(folder: Path) -> None:
    true, int8, low, low_int8 = (
        read(folder, parts, dtype=dtype) for dtype in ("float32", "bfloat16") for parts in ((), tuple(Int8))
    )
    without = difference(computed(low, arrays_of(low)), computed(true, arrays_of(true)))
    with_int8 = difference(computed(low_int8, arrays_of(low_int8)), computed(int8, rounded(arrays_of(int8))))
    assert with_int8 <= MORE_IN_BFLOAT16 * without


def test_scales_by_input_are_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true, int8 = read(folder, ()), read(folder)
    right = Linear.scaled

    def by_input(layer: Linear, x: jax.Array, scale: jax.Array) -> jax.Array:
        if x.shape[-1] != scale.shape[0]:
            return right(layer, x, scale)
        return right(layer, x * scale.reshape((1,) * (x.ndim - 1) + (-1,)), jnp.ones_like(scale))

    expected = computed(true, rounded(arrays_of(int8)))
    monkeypatch.setattr(Linear, "scaled", by_input)
    assert difference(computed(int8, arrays_of(int8)), expected) > 1000 * OF_ROUNDED
