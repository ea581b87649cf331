"""A row of a batch has the same bits whatever the other rows hold and wherever in the batch it stands.

The autoencoder is not tested here. XLA's CPU convolutions of some processors round the last pixels of the
last row differently, so the engine decodes one picture in a call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
from checkpoints import FAMILIES, make_tiny_checkpoint

from sdjax_engine.memory.devices import network_options, open_mesh
from sdjax_engine.weights import Checkpoint, Parameters, load_checkpoint

Array = npt.NDArray[Any]
NetworkCall = Callable[..., Array]
ROWS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def xl_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("xl_checkpoint"), **FAMILIES["SDXL"])


def inputs_of(name: str, seed: int) -> tuple[Array, ...]:
    rng = np.random.default_rng(seed)

    def noise(*shape: int) -> Array:
        return rng.standard_normal((ROWS, *shape)).astype(np.float32)

    timesteps = rng.uniform(0, 999, ROWS).astype(np.float32)
    told = rng.integers(1, 77, ROWS).astype(np.int32), noise(40), 512 * np.abs(noise(6))
    return {
        "text_encoder": (rng.integers(0, 500, (ROWS, 77)).astype(np.int32),),
        "unet": (noise(8, 8, 4), timesteps, noise(77, 32)),
        "unet that is told more": (noise(8, 8, 4), timesteps, noise(77, 80), *told),
    }[name]


def told_more(module: Any) -> NetworkCall:
    names = ("context_lengths", "text_embeds", "time_ids")
    return lambda *values: module(*values[:3], **dict(zip(names, values[3:], strict=True)))


def network_of(checkpoint: Checkpoint, name: str) -> NetworkCall:
    component = getattr(checkpoint, name.partition(" ")[0])

    def call_of(parameters: Parameters) -> NetworkCall:
        module = component.module(parameters)
        if name == "text_encoder":
            return lambda ids: module(ids).hidden
        if name == "unet that is told more":
            return told_more(module)
        return module

    options = network_options(open_mesh()) if name.startswith("unet") else {}
    compiled = jax.jit(lambda given, *values: call_of(given)(*values), compiler_options=options)
    return lambda *values: np.asarray(compiled(component.parameters, *values)).view(np.uint8)


def check_rows(network: NetworkCall, name: str) -> None:
    ours, strangers = inputs_of(name, seed=0), inputs_of(name, seed=1)
    alone = network(*ours)

    for place in range(ROWS):
        mixed = [stranger.copy() for stranger in strangers]
        for own, mix in zip(ours, mixed, strict=True):
            mix[place] = own[0]
        np.testing.assert_array_equal(network(*mixed)[place], alone[0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["text_encoder", "unet"])
def test_rows_do_not_depend_on_their_company_or_place(name: str, dtype: str, folder: Path) -> None:
    check_rows(network_of(load_checkpoint(str(folder), dtype=dtype), name), name)


def test_neither_do_rows_with_contexts_and_sizes_of_their_own(xl_folder: Path) -> None:
    name = "unet that is told more"
    check_rows(network_of(load_checkpoint(str(xl_folder)), name), name)
