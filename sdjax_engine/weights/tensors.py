"""The tensor of each parameter in the files; both sides must match exactly."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sdjax_engine.weights.headers import Header, read_header, read_numbers
from sdjax_engine.weights.tensor_names import current_name, fits, reference_name, reference_shape

STORED_DTYPES = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})
SCALE = ".scale_weight"  # ComfyUI's, beside a weight in 8 bits, whose values it multiplies
UNUSED = re.compile(
    r".*\.scale_input|(.+\.)?scaled_fp8"
)  # for arithmetic in 8 bits, and the mark of its files
MOST_LISTED = 10


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A tensor in a file: its shape, the code of its dtype, its offset in the file, its size in bytes.

    `transposed`: the file holds a matrix whose rows are this tensor's columns. The tensor's values are those
    in the file times `scale`.
    """

    file: Path
    shape: tuple[int, ...]
    dtype: str
    offset: int
    size: int
    transposed: bool = False
    scale: float = 1.0

    def turned(self) -> Stored:
        """The tensor with `transposed` inverted and its shape reversed."""
        return replace(self, shape=self.shape[::-1], transposed=not self.transposed)

    def share(self, index: int, count: int) -> Stored:
        """The `index`th of `count` equal shares along the first axis."""
        rows, size = self.shape[0] // count, self.size // count
        return replace(self, shape=(rows, *self.shape[1:]), offset=self.offset + index * size, size=size)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter to fill: its path in the module, and the shape it has there."""

    path: tuple[str | int, ...]
    shape: tuple[int, ...]

    @property
    def leaf(self) -> str:
        """The last name of the path: `kernel`, `bias`, `scale`, `embedding`, …"""
        return str(self.path[-1])

    @property
    def key(self) -> str:
        """The path with dots."""
        return ".".join(map(str, self.path))


def reference_names(shapes: Iterable[tuple[tuple[str | int, ...], Sequence[int]]]) -> dict[str, Parameter]:
    """Return the parameters of these paths and shapes by the reference's names."""
    return {reference_name(path): Parameter(path=path, shape=tuple(shape)) for path, shape in shapes}


def tensors_in(file: Path, header: Header) -> dict[str, Stored]:
    """Return the tensors of a file by their names in it, each with the scale that lies beside it.

    Raises UnreadableCheckpoint.
    """
    scales = scales_in(file, header)
    return {
        name: Stored(
            file=file,
            shape=entry.shape,
            dtype=entry.dtype,
            offset=entry.offset,
            size=entry.size,
            scale=scales.get(name.removesuffix(".weight") + SCALE, 1.0),
        )
        for name, entry in header.entries.items()
        if name not in scales and not UNUSED.fullmatch(name)
    }


def scales_in(file: Path, header: Header) -> dict[str, float]:
    """Return the scales of weights, by their own names; raises UnreadableCheckpoint."""
    beside = {
        name: entry
        for name, entry in header.entries.items()
        if name.endswith(SCALE) and f"{name.removesuffix(SCALE)}.weight" in header.entries
    }
    numbers = read_numbers(file, beside) if beside else {}
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def stored_tensors(model: str, files: Sequence[Path]) -> dict[str, Stored]:
    """Return the tensors in the files of a network of class `model` by today's names, reading headers only.

    Raises UnreadableCheckpoint for an incomplete safetensors file.
    """
    found = {}
    for file in files:
        for name, stored in tensors_in(file, read_header(file)).items():
            current = current_name(model, name)
            if current is not None:
                found[current] = stored
    return found


def find_problems(stored: Mapping[str, Stored], wanted: Mapping[str, Parameter]) -> list[str]:
    """Return one clause for each kind of mismatch between the files and the configuration."""
    missing = sorted(wanted.keys() - stored.keys())
    left_over = sorted(stored.keys() - wanted.keys())
    shared = sorted(wanted.keys() & stored.keys())
    misshapen = [
        f"{name} {stored[name].shape} for {reference_shape(wanted[name].shape, wanted[name].leaf)}"
        for name in shared
        if not fits(stored[name].shape, wanted[name].shape, wanted[name].leaf)
    ]
    strange = [f"{name} ({stored[name].dtype})" for name in shared if stored[name].dtype not in STORED_DTYPES]
    kinds = (
        ("missing", missing),
        ("left over", left_over),
        ("of the wrong shape", misshapen),
        ("of a dtype that is not supported", strange),
    )
    return [f"{len(names)} {kind}: {shorten(names)}" for kind, names in kinds if names]


def shorten(names: Sequence[str]) -> str:
    """Return the names as one text, shortened where there are many."""
    text = ", ".join(names[:MOST_LISTED])
    return text if len(names) <= MOST_LISTED else f"{text} and {len(names) - MOST_LISTED} more"
