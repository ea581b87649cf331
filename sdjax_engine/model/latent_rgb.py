"""A linear map from latents to RGB for previews, fitted to the pictures that the model has painted.

The mean colour of the pixels that a cell of the latents is decoded to is about that cell times a matrix. The
matrix is found by least squares from finished pictures, so it suits any autoencoder and needs no network.
Before the first finished picture there are no previews. No JAX here.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FOLDER = "previews"
MOST_PICTURES = 64
"""A map that was fitted to so many pictures is not fitted any more, so it costs nothing then."""
RIDGE = 1e-4
"""The ridge penalty of the least-squares fit, for directions that the pictures do not determine."""

Array = npt.NDArray[np.float64]


class LatentRGB:
    """The map of one model; may be used from any thread.

    Its sums are kept in `file` for the next start (None: not at all). A file that cannot be read or written
    is ignored.
    """

    def __init__(self, channels: int, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._count = 0
        self._moments = np.zeros((channels + 1, channels + 1))  # of the latents and the constant 1
        self._products = np.zeros((channels + 1, 3))  # of these with red, green and blue
        self._matrix: Array | None = None
        self._read()

    @property
    def known(self) -> bool:
        """Whether there is a map."""
        return self._matrix is not None

    @property
    def learns(self) -> bool:
        """Whether the map is to be fitted to more pictures."""
        return self._count < MOST_PICTURES

    def learn(self, latents: npt.NDArray[np.float32], pixels: npt.NDArray[np.uint8]) -> None:
        """Fit the map to one more picture: latents (h, w, c), pixels (h·n, w·n, 3)."""
        cells = with_constant(latents)
        height, width, _ = latents.shape
        blocks = pixels.reshape(height, pixels.shape[0] // height, width, pixels.shape[1] // width, 3)
        colours = blocks.mean(axis=(1, 3), dtype=np.float64).reshape(-1, 3)
        if not np.isfinite(cells).all():
            return
        with self._lock:
            self._moments += cells.T @ cells / len(cells)
            self._products += cells.T @ colours / len(cells)
            self._count += 1
            self._fit()
            if self._count & (self._count - 1) == 0:  # after 1, 2, 4, 8 … pictures
                self._write()

    def pixels(self, latents: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
        """Return the preview (h, w, 3) of latents (h, w, c); a value that is no number is black."""
        assert self._matrix is not None, "a preview is made only once the map is known"
        colours = np.nan_to_num(with_constant(latents) @ self._matrix)
        return np.clip(np.round(colours), 0, 255).astype(np.uint8).reshape(*latents.shape[:2], 3)

    def _fit(self) -> None:
        scale = np.trace(self._moments) * RIDGE
        self._matrix = np.linalg.solve(self._moments + scale * np.eye(len(self._moments)), self._products)

    def _read(self) -> None:
        if self._file is None:
            return
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            told: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
            moments, products = (np.array(told[name], np.float64) for name in ("moments", "products"))
            sound = np.isfinite(moments).all() and np.isfinite(products).all() and int(told["count"]) > 0
            if sound and (moments.shape, products.shape) == (self._moments.shape, self._products.shape):
                self._count, self._moments, self._products = int(told["count"]), moments, products
                self._fit()

    def _write(self) -> None:
        if self._file is None:
            return
        told = {"moments": self._moments.tolist(), "products": self._products.tolist(), "count": self._count}
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part = self._file.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps(told), encoding="utf-8")
            part.replace(self._file)


def with_constant(latents: npt.NDArray[np.float32]) -> Array:
    """Return the cells of latents (h, w, c) as rows (h·w, c + 1), with a last column of ones."""
    cells = latents.reshape(-1, latents.shape[-1]).astype(np.float64)
    return np.column_stack([cells, np.ones(len(cells))])
