"""Networks apart from their parameters; parameters are nested dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
from flax import nnx

from sdjax_engine.models.attention import GEGLU, Transformer2DModel
from sdjax_engine.weights import Component
from sdjax_engine.weights.blueprint import Blueprint, Layout, layout_of, nested

Params = dict[str, Any]
"""Nested dictionaries of arrays; the keys are the parts of the reference's parameter names."""

REMOVED_NORM_EPS = 1e-5


@dataclass(frozen=True, kw_only=True, eq=False)
class UnboundNetwork:
    """A network without parameters; `bind` gives it parameters. `config` is its checked configuration."""

    blueprint: Blueprint = field(repr=False)
    config: Mapping[str, Any]

    def bind(self, params: Params) -> Any:
        """Return the module with these parameters, for use within one traced function."""
        return nnx.merge(self.blueprint.layout.graphdef, nnx.restore_int_paths(params))


def take_apart(component: Component) -> tuple[UnboundNetwork, Params]:
    """Return a component's network and its parameters in host memory."""
    params = nested(jax.device_get(component.parameters))
    return UnboundNetwork(blueprint=component.blueprint, config=component.config), params


class TanhGEGLU(nnx.Module):  # type: ignore[misc]
    """GEGLU with the tanh approximation of GELU."""

    def __init__(self, exact: GEGLU) -> None:
        self.proj = exact.proj

    def __call__(self, x: jax.Array) -> jax.Array:
        """`x` is `(n, tokens, width)`."""
        kept, gate = jax.numpy.split(self.proj(x), 2, axis=-1)
        return kept * jax.nn.gelu(gate, approximate=True)


def as_removed(unet: Component) -> Component:
    """Return the UNet as the removed Flax class had it.

    It differs from the reference's torch class in two ways: its transformers approximated GELU by tanh, and
    their first norm had an epsilon of 1e-5 instead of 1e-6. Names and shapes of the parameters are the same.
    """

    def make() -> Layout:
        layout = unet.blueprint.layout
        module = nnx.merge(layout.graphdef, layout.state)
        for _, part in nnx.iter_modules(module):
            if isinstance(part, Transformer2DModel):
                part.norm.eps = REMOVED_NORM_EPS
                for block in part.transformer_blocks:
                    block.ff.net[0] = TanhGEGLU(block.ff.net[0])
        return layout_of(module)

    return replace(unet, blueprint=Blueprint(make))
