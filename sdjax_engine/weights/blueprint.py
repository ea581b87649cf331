"""The construction of a network's module, delayed until a program is traced.

A start with every program and parameter in the cache needs only the names and shapes of the parameters, which
are in the cache file. Building a module imports flax, and takes a third of a second for an SDXL's UNet. It is
delayed until a module is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax

from sdjax_engine.models.convolution_kernels import by_window
from sdjax_engine.models.lora_bank import Bank
from sdjax_engine.weights.tensors import Parameter, reference_names

if TYPE_CHECKING:
    from flax import nnx

Parameters = dict[str, jax.Array]
"""A network's parameters by their paths with dots, a plain tree."""


class Blueprint:
    """Makes one network's module; `make` returns it without memory for its parameters.

    The graph definition is made once, by the first thread that needs it. `make` may raise
    UnreadableCheckpoint for an impossible configuration.
    """

    def __init__(self, make: Callable[[], nnx.Module]) -> None:
        self.make = make
        self._lock = threading.Lock()
        self._form: tuple[Any, Any] | None = None

    @property
    def graphdef(self) -> nnx.GraphDef[Any]:
        """The module's graph definition; its representation differs between processes."""
        return self._parts[0]

    @property
    def wanted(self) -> dict[str, Parameter]:
        """The parameters that the module has, by the reference's names."""
        from flax import nnx  # noqa: PLC0415

        _, state = self._parts
        return reference_names((tuple(path), each.shape) for path, each in nnx.to_flat_state(state))

    def module(self, parameters: Mapping[str, Any]) -> Any:
        """Return the module over these parameters, for use within one traced function.

        Kernels of convolutions may be in a GPU's order (`models/convolution_kernels.py`).
        """
        from flax import nnx  # noqa: PLC0415

        shapes = {each.key: each.shape for each in self.wanted.values()}
        laid = {key: by_window(array, shapes[key]) for key, array in parameters.items()}
        return nnx.merge(self.graphdef, nnx.restore_int_paths(nested(laid)))

    def adapted(self, parameters: Mapping[str, Any], bank: Bank, rows: jax.Array, scales: jax.Array) -> Any:
        """Return the module over these parameters with LoRAs attached (see `models.lora.attach`)."""
        from sdjax_engine.models.lora import attach  # noqa: PLC0415

        return attach(self.module(parameters), bank, rows, scales)

    @property
    def _parts(self) -> tuple[Any, Any]:
        from flax import nnx  # noqa: PLC0415

        with self._lock:
            if self._form is None:
                self._form = nnx.split(self.make())
            return self._form


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
