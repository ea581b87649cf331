"""A checkpoint's size on the devices, from its configurations and the headers of its files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp

from sdjax_engine.weights.load import plans_of, read_contents
from sdjax_engine.weights.networks import check_tensors


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The reference's pipeline, the native (width, height), and the bytes of all parameters."""

    pipeline: str
    native_size: tuple[int, int]
    size: int


def measure(
    path: Path,
    *,
    dtype: str,
    variant: str | None = None,
    vae: str | None = None,
    safety_checker: bool = False,
) -> Measured:
    """Check that every tensor of the checkpoint at `path` is there and fits, and return its size.

    Reads headers only, no weights. Raises UnreadableCheckpoint.
    """
    contents = read_contents(path, variant=variant, vae=vae, safety_checker=safety_checker)
    plans = plans_of(contents, dtype)
    check_tensors(contents.origin, plans)
    size = sum(
        math.prod(parameter.shape) * jnp.dtype(each.dtype).itemsize
        for each in plans.values()
        for parameter in each.wanted.values()
    )
    return Measured(pipeline=contents.pipeline, native_size=contents.native_size, size=size)
