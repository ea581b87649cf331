"""Latents as the tokens of a transformer: square patches, row by row."""

from __future__ import annotations

from jax import Array


def patches_of(sample: Array, side: int) -> Array:
    """Return the patches of `sample` (n, h, w, channels), (n, patches, values), channels fastest."""
    n, height, width, channels = sample.shape
    x = sample.reshape(n, height // side, side, width // side, side, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, -1, side * side * channels)


def picture_of(patches: Array, grid: tuple[int, int], side: int) -> Array:
    """Undo `patches_of`, for patches in a grid of this many rows and columns."""
    rows, columns = grid
    x = patches.reshape(len(patches), rows, columns, side, side, -1).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(len(patches), rows * side, columns * side, -1)
