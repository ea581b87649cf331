"""How convolutions' kernels lie in a GPU's memory: by output channel, as cuDNN reads them.

In every other place a kernel is (height, width, channels in, channels out), as the `nnx` layers have it. In
this order each call of a program would transpose each kernel on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

KERNEL_AXES = 4
BY_OUTPUT = (3, 0, 1, 2)
BY_WINDOW = (1, 2, 3, 0)


def by_output(parameter: Any) -> Any:
    """Return a convolution's kernel as (channels out, height, width, channels in), others as they are.

    A kernel of four equal sizes stays as it is too: `by_window` goes by the shape.
    """
    turned = tuple(parameter.shape[axis] for axis in BY_OUTPUT) if parameter.ndim == KERNEL_AXES else None
    return parameter if turned in {None, parameter.shape} else parameter.transpose(BY_OUTPUT)


def by_window(parameter: Any, wanted: Sequence[int]) -> Any:
    """Return what `by_output` made of a parameter of the shape `wanted` as it was."""
    return parameter if tuple(parameter.shape) == tuple(wanted) else parameter.transpose(BY_WINDOW)
