"""The arrays of a LoRA bank, and the shapes that its rows must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jax import Array


@dataclass(frozen=True, kw_only=True, order=True)
class LayerPath:
    """A layer of one of a checkpoint's networks."""

    component: str
    path: str

    def __str__(self) -> str:
        return f"{self.component}.{self.path}"


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """The widths of a layer; `window` is (height, width) of a convolution, empty for a linear map."""

    width_in: int
    width_out: int
    window: tuple[int, ...] = ()


class Factors(NamedTuple):
    """One layer's rows of a bank: `down` (rows, *window, width_in) and `up` (rows, width_out)."""

    down: Array
    up: Array


Bank = Mapping[str, Factors]


class LoraRows(NamedTuple):
    """The rows of a bank that each seat or row gathers, (n, rank) int32, and the scale of each, float32."""

    rows: Array
    scales: Array


def shape_of(kernel: Sequence[int]) -> LayerShape:
    """Return the shape of a layer whose kernel is (*window, width_in, width_out)."""
    *window, width_in, width_out = kernel
    return LayerShape(width_in=width_in, width_out=width_out, window=tuple(window))
