"""One program over several devices: every array has a leading axis with one entry per device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding

from sdjax_engine.memory.devices import AXIS, BY_SEAT, REPLICATED


def mesh_over(count: int) -> Mesh:
    """The mesh of the first `count` devices of this process, in the order of `flax.jax_utils.replicate`."""
    devices = jax.local_devices()
    if count > len(devices):
        raise ValueError(f"The leading axis is {count}, and there are {len(devices)} devices: use `shard`.")
    return Mesh(np.array(devices[:count]), (AXIS,), axis_types=(AxisType.Auto,))


def place(tree: Any, mesh: Mesh) -> Any:
    """Return the tree with each entry of the leading axis on its own device; placed arrays are not copied.

    Raises ValueError, before anything is compiled, for arrays without the leading axis.
    """
    count = mesh.devices.size
    if any(np.shape(leaf)[:1] != (count,) for leaf in jax.tree.leaves(tree)):
        raise ValueError(
            f"With jit=True every array needs a leading axis of the {count} devices: `replicate` the "
            "parameters, `shard` prompts and pictures, and split the key."
        )
    return jax.device_put(tree, NamedSharding(mesh, BY_SEAT))


def over(mesh: Mesh, function: Callable[..., Any], each: tuple[Any, ...], *shared: Any) -> Any:
    """Return the stacked results of `function(*each, *shared)` on every device.

    Only `each` has the leading axis; the function sees its device's entry. Call it within `jax.jit`.
    """

    def one(each: tuple[Any, ...], shared: tuple[Any, ...]) -> Any:
        result = function(*jax.tree.map(lambda array: array[0], each), *shared)
        return jax.tree.map(lambda array: array[None], result)

    specs = (BY_SEAT, REPLICATED)
    return jax.shard_map(one, mesh=mesh, in_specs=specs, out_specs=BY_SEAT, check_vma=False)(each, shared)
