"""One program over several devices: every array has a leading axis, one entry for each device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding

from sdjax_engine.memory.devices import AXIS, BY_SEAT, REPLICATED


def mesh_over(count: int) -> Mesh:
    """The mesh over the first `count` devices of this process, in the order of `flax.jax_utils.replicate`."""
    devices = jax.local_devices()
    if count > len(devices):
        raise ValueError(f"The leading axis is {count}, and there are {len(devices)} devices: use `shard`.")
    return Mesh(np.array(devices[:count]), (AXIS,), axis_types=(AxisType.Auto,))


def place(tree: Any, mesh: Mesh) -> Any:
    """Return the tree with each entry of a leading axis on its own device; what is there already stays.

    Raises ValueError, before anything is compiled, for arrays without that axis.
    """
    count = mesh.devices.size
    if any(np.shape(leaf)[:1] != (count,) for leaf in jax.tree.leaves(tree)):
        raise ValueError(
            f"With jit=True every array needs a leading axis of the {count} devices: `replicate` the "
            "parameters, `shard` prompts and pictures, and split the key."
        )
    return jax.device_put(tree, NamedSharding(mesh, BY_SEAT))


def over(mesh: Mesh, function: Callable[..., Any], each: tuple[Any, ...], *shared: Any) -> Any:
    """Return `function(*each, *shared)` of every device, stacked; only `each` has the leading axis.

    The function sees its own device's part only. To be called within `jax.jit`.
    """

    def one(each: tuple[Any, ...], shared: tuple[Any, ...]) -> Any:
        result = function(*jax.tree.map(lambda array: array[0], each), *shared)
        return jax.tree.map(lambda array: array[None], result)

    specs = (BY_SEAT, REPLICATED)
    return jax.shard_map(one, mesh=mesh, in_specs=specs, out_specs=BY_SEAT, check_vma=False)(each, shared)
