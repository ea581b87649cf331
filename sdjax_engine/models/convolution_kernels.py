"""The order of convolution kernels in a GPU's memory: by output channel, as cuDNN reads them.

Everywhere else a kernel is (height, width, channels in, channels out), the order of the `nnx` layers. From
that order, every call of a program on a GPU would have to transpose every kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

KERNEL_AXES = 4
BY_OUTPUT = (3, 0, 1, 2)
BY_WINDOW = (1, 2, 3, 0)


def by_output(parameter: Any) -> Any:
    """Return a convolution's kernel as (channels out, height, width, channels in), others unchanged.

    A kernel of four equal sizes is unchanged too, because `by_window` tells the order from the shape.
    """
    turned = tuple(parameter.shape[axis] for axis in BY_OUTPUT) if parameter.ndim == KERNEL_AXES else None
    return parameter if turned in {None, parameter.shape} else parameter.transpose(BY_OUTPUT)


def by_window(parameter: Any, wanted: Sequence[int]) -> Any:
    """Undo `by_output`: return the parameter in its original order, in which it has the shape `wanted`."""
    return parameter if tuple(parameter.shape) == tuple(wanted) else parameter.transpose(BY_WINDOW)
