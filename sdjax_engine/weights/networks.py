"""Networks: built from their configurations without memory, and checked against their tensors.

A start with every program and parameter in the cache needs only the names and shapes of the parameters, which
are in the cache file. Building a module imports flax, and takes a third of a second for an SDXL's. It is
delayed until a module is needed.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from sdjax_engine.errors import UnreadableCheckpoint, first_line
from sdjax_engine.models.kinds import KINDS
from sdjax_engine.models.lora_bank import Bank
from sdjax_engine.weights.tensors import (
    KERNEL_SCALE,
    Parameter,
    Stored,
    find_problems,
    reference_names,
    scale_key,
)

if TYPE_CHECKING:
    from flax import nnx

BYTES_OF_SCALE = 4
KERNEL_AXES = 4
BY_OUTPUT = (3, 0, 1, 2)
BY_WINDOW = (1, 2, 3, 0)


def ordered_by_output(parameter: Any) -> Any:
    """Return a convolution's kernel as (channels out, height, width, channels in), others unchanged.

    A kernel of four equal sizes is unchanged too, because `by_window` tells the order from the shape.
    """
    turned = tuple(parameter.shape[axis] for axis in BY_OUTPUT) if parameter.ndim == KERNEL_AXES else None
    return parameter if turned in {None, parameter.shape} else parameter.transpose(BY_OUTPUT)


def by_window(parameter: Any, wanted: Sequence[int]) -> Any:
    """Undo `by_output`: return the parameter in its original order, in which it has the shape `wanted`."""
    return parameter if tuple(parameter.shape) == tuple(wanted) else parameter.transpose(BY_WINDOW)


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

        Kernels of convolutions may be in a GPU's order (`ordered_by_output`), and those of linear maps in
        INT8 with their scales beside them.
        """
        from flax import nnx  # noqa: PLC0415

        shapes = {each.key: each.shape for each in self.layout.parameters.values()}
        scales = {key: array for key, array in parameters.items() if key.endswith(KERNEL_SCALE)}
        laid = {key: by_window(array, shapes[key]) for key, array in parameters.items() if key not in scales}
        module = nnx.merge(self.layout.graphdef, nnx.restore_int_paths(nested(laid)))
        return with_scales(module, scales)

    def adapted(self, parameters: Mapping[str, Any], bank: Bank, rows: jax.Array, scales: jax.Array) -> Any:
        """Return the module over these parameters with LoRAs attached (see `models.lora.attach`)."""
        from sdjax_engine.models.lora import attach  # noqa: PLC0415

        return attach(self.module(parameters), bank, rows, scales)


def with_scales(module: Any, scales: Mapping[str, Any]) -> Any:
    """Set the scales of kernels in INT8, by their paths, on a module that has just been made; return it."""
    if scales:
        from sdjax_engine.models.lora import layers_of  # noqa: PLC0415

        layers = layers_of(module)
        for key, scale in scales.items():
            layers[key.removesuffix(KERNEL_SCALE)].kernel_scale = scale
    return module


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


LAYOUTS_KEPT = 16
"""How many layouts are kept, also after their models are unloaded: most models have the same forms.

A known layout saves 0.44 s of the processor for SDXL's denoiser, which is 9 MB of objects. Its key is the
network's class, its whole configuration, its dtype.
"""

_making = threading.Lock()  # models that load at once wait for one network instead of making it twice


@dataclass(frozen=True, kw_only=True)
class Part:
    """A network before its parameters are read: its class, complete configuration, tensors by present names.

    `origin` is where the configuration comes from, for messages; `dtype` is that of the parameters later.
    With `int8` the weights that its kind names are INT8, with a float32 scale for each output.
    """

    model: str
    config: dict[str, Any]
    stored: Mapping[str, Stored]
    origin: str
    dtype: DTypeLike = jnp.float32
    int8: bool = False

    def in_int8(self, name: str) -> bool:
        """Whether the weight with this name of the reference will be INT8."""
        names = KINDS[self.model].int8 if self.int8 else None
        return names is not None and names.fullmatch(name) is not None

    @property
    def blueprint(self) -> Blueprint:
        """The construction of its module."""
        return Blueprint(self._layout)

    @property
    def in_float32(self) -> Blueprint:
        """The construction of its module with parameters and arithmetic in float32."""
        model, config = self.model, self.config
        return Blueprint(lambda: layout(model, config, "float32"))

    @property
    def wanted(self) -> Mapping[str, Parameter]:
        """Its parameters by the reference's names; raises UnreadableCheckpoint if it cannot be built."""
        return self._layout().parameters

    @property
    def size(self) -> int:
        """The bytes of its parameters by the headers of the files, which may hold others too."""
        return sum(
            math.prod(each.shape) + BYTES_OF_SCALE * math.prod(each.shape[:1])
            if self.in_int8(name)
            else math.prod(each.shape) * int(jnp.dtype(self.dtype).itemsize)
            for name, each in self.stored.items()
        )

    @property
    def forms(self) -> Mapping[str, tuple[tuple[int, ...], DTypeLike]]:
        """The shape and the dtype of every array of its parameters, by path, as `wanted` has them."""
        found: dict[str, tuple[tuple[int, ...], DTypeLike]] = {}
        for name, each in self.wanted.items():
            in_int8 = self.in_int8(name)
            found[each.key] = each.shape, jnp.int8 if in_int8 else self.dtype
            if in_int8:
                found[scale_key(each.key)] = each.shape[-1:], jnp.float32
        return found

    def _layout(self) -> Layout:
        try:
            return layout(self.model, self.config, self.dtype)
        except NO_NETWORK as error:
            raise not_a_network(self.origin, error) from error


NO_NETWORK = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, MemoryError)
"""The exceptions that building a network raises for values of the wrong kind or size."""


def settle_config(model: str, config: Mapping[str, Any], *, origin: str) -> dict[str, Any]:
    """Return the configuration of a network of class `model` with all its values.

    Raises UnreadableCheckpoint for values that are not supported or describe no network.
    """
    try:
        return KINDS[model].settle(config)
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(f"{origin}: {error}") from error
    except NO_NETWORK as error:
        raise not_a_network(origin, error) from error


def infer_part(
    file: Path,
    model: str,
    name: str,
    named: Callable[[], dict[str, Stored]],
    config: Callable[[dict[str, Stored]], dict[str, Any]],
) -> Part:
    """Return the network `name` of a file without configurations, from its tensors by today's names.

    `named` and `config` raise KeyError, IndexError or ValueError for tensors that show no such network, which
    becomes UnreadableCheckpoint.
    """
    origin = f"the {name} in {file}"
    try:
        stored = named()
        inferred = config(stored)
    except (KeyError, IndexError, ValueError) as error:
        raise UnreadableCheckpoint(
            f"{file} lacks what tells the shape of its {name}: {first_line(error)}"
        ) from error
    return Part(
        model=model, config=settle_config(model, inferred, origin=origin), stored=stored, origin=origin
    )


def layout(model: str, config: Mapping[str, Any], dtype: DTypeLike) -> Layout:
    """Return the layout of a network of class `model`, which models of one form share.

    `config` is settled: see `settle_config`.
    """
    text = json.dumps(config, sort_keys=True)
    with _making:
        return _layout(model, text, jnp.dtype(dtype).name)


@lru_cache(maxsize=LAYOUTS_KEPT)
def _layout(model: str, config: str, dtype: str) -> Layout:
    network = getattr(import_module(f"sdjax_engine.models.{KINDS[model].module}"), model)
    return layout_of(network(json.loads(config), dtype=jnp.dtype(dtype)))


def check_tensors(origin: str, parts: Mapping[str, Part]) -> None:
    """Raise UnreadableCheckpoint listing every tensor of every network that does not fit."""
    wrong = [
        f"in {name}, {'; '.join(problems)}"
        for name, part in parts.items()
        if (problems := find_problems(part.stored, part.wanted))
    ]
    if wrong:
        raise UnreadableCheckpoint(
            f"The tensors of {origin} do not match its configuration: {'. '.join(wrong)}."
        )


def not_a_network(origin: str, error: Exception) -> UnreadableCheckpoint:
    return UnreadableCheckpoint(f"{origin} describes no network: {first_line(error)}")
