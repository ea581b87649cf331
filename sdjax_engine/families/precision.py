"""The precision in which an autoencoder decodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp

from sdjax_engine.families.family import Blueprint, Loaded, Parameters


@dataclass(frozen=True, kw_only=True, eq=False)
class Precisions:
    """The construction of one network's module in the dtype of its parameters, and in float32."""

    blueprint: Blueprint = field(repr=False)
    in_float32: Blueprint = field(repr=False)

    @classmethod
    def of(cls, network: Loaded) -> Precisions:
        """Return those of a network of a checkpoint."""
        return cls(blueprint=network.blueprint, in_float32=network.in_float32)

    def module(self, parameters: Parameters, *, in_float32: bool = False) -> Any:
        """Return the module, for use within one traced function; in float32 from parameters of any dtype."""
        if not in_float32:
            return self.blueprint.module(parameters)
        enlarged = {key: array.astype(jnp.float32) for key, array in parameters.items()}
        return self.in_float32.module(enlarged)
