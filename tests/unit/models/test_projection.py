"""Keys and values of a prompt are computed once, and depend on no state beyond the prompt's length.

The engine paints with them, so each comparison of its pictures with the reference's tests their values.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checkpoints import UNET, UNET_XL
from jaxprs import equations

from sdjax_engine.families.family import Parameters
from sdjax_engine.models.cross_attention_inputs import Projection
from sdjax_engine.models.layers import Linear
from sdjax_engine.models.lora import layers_of
from sdjax_engine.models.lora_bank import Factors
from sdjax_engine.models.unet import UNet2DConditionModel
from sdjax_engine.weights.networks import Blueprint, layout_of

SEATS, HALVES, KEYS = 2, 2, 9
ROWS = SEATS * HALVES
LENGTHS = np.array([9, 4, 1, 9], np.int32)
ONLY_CROSS = {
    "down_block_types": ("CrossAttnDownBlock2D",) * 2,
    "up_block_types": ("CrossAttnUpBlock2D",) * 2,
    "only_cross_attention": (True, False),
}
UNETS: dict[str, dict[str, Any]] = {
    "SDXL": UNET_XL,
    "only cross-attention": UNET | ONLY_CROSS,
}


class ProjectedUNet:
    """A network with random parameters and LoRAs, its prompts, and both ways to ask it."""

    def __init__(self, config: dict[str, Any], *, loras: bool = False) -> None:
        self._rng = np.random.default_rng(0)
        self._blueprint = Blueprint(lambda: layout_of(UNet2DConditionModel(config, dtype="float32")))
        wanted = self._blueprint.layout.parameters.values()
        self.parameters = {each.key: self._noise(*each.shape, scale=1 / 8) for each in wanted}
        self._bank = self._random_bank() if loras else {}
        self.context = self._noise(ROWS, KEYS, config["cross_attention_dim"])
        self._pictures = self._noise(ROWS, 8, 6, 4), jnp.asarray([981.0, 20.5, 4.0, 512.0])
        self._named: dict[str, Any] = {}
        if config.get("addition_embed_type"):
            self._named |= {"text_embeds": self._noise(ROWS, 40), "time_ids": 64 * self._noise(ROWS, 6)}

    def _noise(self, *shape: int, scale: float = 1.0) -> jax.Array:
        return jnp.asarray(scale * self._rng.standard_normal(shape), jnp.float32)

    def _random_bank(self) -> dict[str, Factors]:
        return {
            path: Factors(self._noise(5, layer.in_features, scale=1 / 8), self._noise(5, layer.out_features))
            for path, layer in layers_of(self._blueprint.module(self.parameters)).items()
            if isinstance(layer, Linear)
        }

    def _bound(self, parameters: Parameters) -> Any:
        rows, scales = jnp.asarray([[1, 2], [3, 4]], jnp.int32), jnp.asarray([[1.0, -0.5], [0.7, 0.0]])
        return self._blueprint.adapted(parameters, self._bank, rows, scales)

    def ask_with_context(self, parameters: Parameters, context: jax.Array) -> jax.Array:
        lengths = jnp.asarray(LENGTHS)
        unet = self._bound(parameters)
        predicted: jax.Array = unet(*self._pictures, context, context_lengths=lengths, **self._named)
        return predicted

    def project(self, parameters: Parameters, context: jax.Array) -> Projection:
        projection: Projection = self._bound(parameters).project(context, jnp.asarray(LENGTHS))
        return projection

    def ask_with_projection(self, parameters: Parameters, projection: Projection) -> jax.Array:
        predicted: jax.Array = self._bound(parameters)(*self._pictures, projection, **self._named)
        return predicted


@pytest.mark.parametrize("loras", [False, True])
def test_states_beyond_the_lengths_do_not_change_a_projection(loras: bool) -> None:
    network = ProjectedUNet(UNETS["only cross-attention"], loras=loras)
    beyond = np.arange(KEYS)[None, :, None] >= LENGTHS[:, None, None]
    project = jax.jit(network.project)
    clean = project(network.parameters, jnp.where(beyond, 0.0, network.context))
    filled = project(network.parameters, jnp.where(beyond, jnp.nan, network.context))
    jax.tree.map(np.testing.assert_array_equal, clean, filled)


@pytest.mark.parametrize("name", ["SDXL", "only cross-attention"])
def test_a_step_with_a_projection_computes_no_keys_and_values_of_the_prompt(name: str) -> None:
    network = ProjectedUNet(UNETS[name])
    projection = jax.eval_shape(network.project, network.parameters, network.context)

    def products(function: Any, told: Any) -> int:
        jaxpr = jax.make_jaxpr(function)(network.parameters, told)
        return sum(equation.primitive.name == "dot_general" for equation in equations(jaxpr.jaxpr))

    without = products(network.ask_with_projection, projection)
    assert products(network.ask_with_context, network.context) == without + 2 * len(projection.keys_values)
