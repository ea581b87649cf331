"""A cache file of converted parameters: safetensors, in this package's layout and names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from sdjax_engine.weights.headers import Header
from sdjax_engine.weights.networks import NetworkPlan
from sdjax_engine.weights.reading import aligned, read_file, read_into

CODES = {"float32": "F32", "bfloat16": "BF16"}
Placed = tuple[str, npt.NDArray[Any]]
"""A parameter by its path with dots, which is also its name in the file."""


def expected(plan: NetworkPlan) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and the dtype's code of every tensor of a cache file."""
    code = CODES[np.dtype(plan.dtype).name]
    return {each.key: (each.shape, code) for each in plan.wanted.values()}


def is_complete(header: Header, plan: NetworkPlan) -> bool:
    """Return whether a file with this header holds the parameters of this network."""
    return {key: (each.shape, each.dtype) for key, each in header.entries.items()} == expected(plan)


def kept_arrays(file: Path, header: Header, dtype: DTypeLike) -> Iterator[Placed]:
    """Yield every parameter, in the order of the file; raises UnreadableCheckpoint."""
    with read_file(file) as opened:
        for key, entry in sorted(header.entries.items(), key=lambda item: item[1].offset):
            array = aligned(entry.shape, dtype)
            read_into(array.reshape(-1).view(np.uint8), opened, entry.offset)
            yield key, array


class Writer:
    """Writes the parameters of a network into `file`, in any order; raises OSError."""

    def __init__(self, file: Path, plan: NetworkPlan) -> None:
        described: dict[str, dict[str, object]] = {}
        offsets: dict[str, int] = {}
        offset = 0
        for key, (shape, code) in expected(plan).items():
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(plan.dtype).itemsize
            described[key] = {"dtype": code, "shape": shape, "data_offsets": (offset, offset + size)}
            offsets[key] = offset
            offset += size
        text = json.dumps(described).encode()
        text += b" " * (-len(text) % 8)
        self._offsets = {key: 8 + len(text) + each for key, each in offsets.items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        self._opened = file.open("wb", buffering=0)
        self._opened.write(len(text).to_bytes(8, "little") + text)

    def write(self, key: str, array: npt.NDArray[Any]) -> None:
        """Write one parameter."""
        view = array.reshape(-1).view(np.uint8).data
        self._opened.seek(self._offsets[key])
        while view:
            view = view[self._opened.write(view) :]

    def finish(self) -> None:
        """Sync the file to the disk, and close it."""
        os.fsync(self._opened.fileno())
        self._opened.close()

    def close(self) -> None:
        """Close the file without syncing it."""
        self._opened.close()
