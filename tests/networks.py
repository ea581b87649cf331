"""Our networks with the weights of a torch network, and the difference of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import torch
from flax import nnx

from sdjax_engine.families.family import Parameters
from sdjax_engine.weights.networks import Blueprint, layout_of
from sdjax_engine.weights.tensors import arrange

Array = npt.NDArray[np.float32]


class Filled:
    """A network of class `kind` with the weights of `reference`, to be called in compiled functions.

    With `take` the weights are moved from the reference one by one, so that memory holds them only once.
    """

    def __init__(
        self,
        kind: Callable[..., nnx.Module],
        config: Mapping[str, Any],
        reference: torch.nn.Module,
        *,
        dtype: str = "float32",
        take: bool = False,
    ) -> None:
        self.blueprint = Blueprint(lambda: layout_of(kind(config, dtype=jnp.dtype(dtype))))
        stored, theirs = reference.state_dict(), dict(reference.named_parameters())
        theirs |= {name: stored[name] for name, _ in reference.named_buffers() if name in stored}
        wanted = self.blueprint.layout.parameters
        assert wanted.keys() == {name for name, each in theirs.items() if each.is_floating_point()}
        self.parameters: Parameters = {}
        for name, parameter in wanted.items():
            tensor = arrange(theirs[name].detach().numpy(), parameter.shape, parameter.leaf)
            self.parameters[parameter.key] = jnp.asarray(tensor, dtype)
            assert self.parameters[parameter.key].shape == parameter.shape
            if take:
                theirs.pop(name).data = torch.empty(0)

    def __call__(self, *values: Any, call: Callable[..., Any] | None = None, **named: Any) -> Any:
        """Return the network's result; `call` gets the network and then the values."""
        return self._compute(self.parameters, values, named, call)

    @partial(jax.jit, static_argnums=(0, 4))
    def _compute(
        self, parameters: Parameters, values: Any, named: Any, call: Callable[..., Any] | None
    ) -> Any:
        network = self.blueprint.module(parameters)
        return network(*values, **named) if call is None else call(network, *values, **named)


def relative_difference(ours: Any, reference: torch.Tensor) -> float:
    """The largest difference, divided by the reference's largest value; `reference` is channels-first."""
    theirs = reference.detach().numpy()
    theirs = theirs.transpose(0, 2, 3, 1) if theirs.ndim == 4 else theirs
    return float(np.abs(np.asarray(ours, np.float32) - theirs).max() / np.abs(theirs).max())


def noise(*shape: int, seed: int = 0) -> Array:
    """Standard noise, the same for the same seed."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def channels_first(x: Array) -> torch.Tensor:
    """A copy on torch of a batch of pictures."""
    return torch.from_numpy(x.transpose(0, 3, 1, 2).copy())
