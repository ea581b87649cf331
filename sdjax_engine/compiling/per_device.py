"""A program for each device, where a CPU is split into several devices.

XLA's client for the CPU runs one program at a time that is spread over several devices: a device that has
finished waits for the slowest one. A program of one device waits for its arguments only. A program is
therefore compiled for one device and loaded on the others. No operation joins rows of different devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.stages import Compiled

from sdjax_engine.compiling.loaded_programs import LoadedProgram
from sdjax_engine.memory.devices import BY_SEAT, REPLICATED, spread_shape

SpreadArray = jax.Array | npt.NDArray[Any]


class PerDevice:
    """One program on every device of a mesh, called like a program that is spread over them.

    An argument may be an array of the host, whose rows are divided among the devices in order. `each` is the
    program of each device, `specs` says how each argument is spread; every result is spread by seat.
    """

    def __init__(
        self, each: Sequence[Compiled | LoadedProgram], mesh: Mesh, specs: Sequence[PartitionSpec]
    ) -> None:
        self._each = tuple(each)
        self._specs = tuple(specs)
        self._mesh = mesh
        self._devices = list(mesh.devices.flat)
        self._spread = NamedSharding(mesh, BY_SEAT)
        self._copies: dict[int, tuple[list[SpreadArray], list[Any]]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Queue the work of every device; raises the first error of any of them."""
        shares = [
            self._shares(place, tree, spec)
            for place, (tree, spec) in enumerate(zip(arguments, self._specs, strict=True))
        ]
        results = [program(*share) for program, *share in zip(self._each, *shares, strict=True)]
        return jax.tree.map(self._joined, *results)

    @property
    def out_info(self) -> Any:
        """The results of all devices together, as shapes."""
        count = len(self._each)

        def together(leaf: Any) -> jax.ShapeDtypeStruct:
            return spread_shape((leaf.shape[0] * count, *leaf.shape[1:]), leaf.dtype, self._mesh)

        return jax.tree.map(together, self._each[0].out_info)

    def memory_analysis(self) -> Any:
        """Return what XLA says of the memory that each device needs."""
        return self._each[0].memory_analysis()

    def _shares(self, place: int, tree: Any, spec: PartitionSpec) -> list[Any]:
        """Return each device's share of the argument at `place`; those of parameters are computed once."""
        leaves: list[SpreadArray]
        structure: Any
        leaves, structure = jax.tree.flatten(tree)
        if spec == REPLICATED and place in self._copies:
            known, shares = self._copies[place]
            if all(leaf is other for leaf, other in zip(leaves, known, strict=True)):
                return shares
        parts = [self._parts(leaf) for leaf in leaves]
        shares = [structure.unflatten([part[k] for part in parts]) for k in range(len(self._devices))]
        if spec == REPLICATED:
            self._copies[place] = leaves, shares
        return shares

    def _parts(self, array: SpreadArray) -> Sequence[SpreadArray]:
        if isinstance(array, np.ndarray):
            return np.split(array, len(self._devices))
        parts = {shard.device: shard.data for shard in array.addressable_shards}
        return [parts[device] for device in self._devices]

    def _joined(self, *parts: jax.Array) -> jax.Array:
        shape = (len(parts) * parts[0].shape[0], *parts[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, self._spread, list(parts))
