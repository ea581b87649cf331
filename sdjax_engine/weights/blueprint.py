"""The construction of a network's module, delayed until a program is traced.

A start with every program and parameter in the cache needs only the names and shapes of the parameters, which
are in the cache file. Building a module imports flax, and takes a third of a second for an SDXL's UNet. It is
delayed until a module is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from sdjax_engine.models.convolution_kernels import by_window
from sdjax_engine.models.lora_bank import Bank
from sdjax_engine.weights.tensors import Parameter, reference_names

if TYPE_CHECKING:
    from flax import nnx

Parameters = dict[str, jax.Array]
"""A network's parameters by their paths with dots, a plain tree."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A network without memory, as flax splits it, and its parameters by the reference's names.

    The graph definition's representation differs between processes.
    """

    graphdef: nnx.GraphDef[Any]
    state: nnx.State[Any, Any]
    parameters: Mapping[str, Parameter]


def layout_of(network: nnx.Module) -> Layout:
    """Return the layout of a network whose parameters have no memory."""
    from flax import nnx  # noqa: PLC0415

    graphdef, state = nnx.split(network)
    shapes = ((tuple(path), each.shape) for path, each in nnx.to_flat_state(state))
    return Layout(graphdef=graphdef, state=state, parameters=reference_names(shapes))


class Blueprint:
    """Makes one network's module; `make` returns its layout.

    `make` may raise UnreadableCheckpoint for an impossible configuration.
    """

    def __init__(self, make: Callable[[], Layout]) -> None:
        self._make = make

    @property
    def layout(self) -> Layout:
        """The network's layout."""
        return self._make()

    def module(self, parameters: Mapping[str, Any]) -> Any:
        """Return the module over these parameters, for use within one traced function.

        Kernels of convolutions may be in a GPU's order (`models/convolution_kernels.py`).
        """
        from flax import nnx  # noqa: PLC0415

        shapes = {each.key: each.shape for each in self.layout.parameters.values()}
        laid = {key: by_window(array, shapes[key]) for key, array in parameters.items()}
        return nnx.merge(self.layout.graphdef, nnx.restore_int_paths(nested(laid)))

    def adapted(self, parameters: Mapping[str, Any], bank: Bank, rows: jax.Array, scales: jax.Array) -> Any:
        """Return the module over these parameters with LoRAs attached (see `models.lora.attach`)."""
        from sdjax_engine.models.lora import attach  # noqa: PLC0415

        return attach(self.module(parameters), bank, rows, scales)


def nested(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as nested dictionaries, with one level for each part of their paths."""
    tree: dict[str, Any] = {}
    for key, array in parameters.items():
        *modules, leaf = key.split(".")
        inner = tree
        for module in modules:
            inner = inner.setdefault(module, {})
        inner[leaf] = array
    return tree
