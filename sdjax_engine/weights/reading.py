"""Tensors from files to arrays in this package's layout, one at a time.

Bytes are read, not memory-mapped, into one buffer that all tensors reuse. So a load needs the memory of its
result and of the largest tensor, and no pages of files count as memory of the process.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from sdjax_engine.errors import UnreadableCheckpoint, first_line
from sdjax_engine.weights.tensors import Parameter, Stored, arrange, scale_key

Array = npt.NDArray[Any]
NUMPY_DTYPES: Mapping[str, npt.DTypeLike] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
}
BYTES: Mapping[str, npt.DTypeLike] = {"F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}
ROWS, ROWS_OF_BYTES = 16, 64
MOST_INT8 = 127
LARGE = 2**20  # bytes
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
ALIGNMENT = 64  # bytes; JAX uses such arrays on a CPU without a copy


def arrays(
    stored: Mapping[str, Stored],
    wanted: Mapping[str, Parameter],
    *,
    dtype: DTypeLike,
    in_int8: Callable[[str], bool] = lambda _name: False,
) -> Iterator[tuple[str, Array]]:
    """Yield the path of each wanted parameter and its tensor in this package's layout and `dtype`.

    A weight whose name is `in_int8` is yielded as its numbers, then as its scales. The receiver owns each
    array. Raises UnreadableCheckpoint for a file that can no longer be read.
    """
    scratch = aligned((max((stored[name].size for name in wanted), default=0),), np.uint8)
    for file in sorted({stored[name].file for name in wanted}):
        names = [name for name in wanted if stored[name].file == file]
        with read_file(file) as opened:
            for name in sorted(names, key=lambda name: stored[name].offset):
                tensor, parameter = stored[name], wanted[name]
                raw = read_into(scratch[: tensor.size], opened, tensor.offset)
                if in_int8(name):
                    numbers, scales = quantised(raw, tensor, parameter)
                    yield parameter.key, numbers
                    yield scale_key(parameter.key), scales
                else:
                    yield parameter.key, convert(raw, tensor, parameter, dtype=dtype)


@contextmanager
def read_file(file: Path) -> Iterator[BinaryIO]:
    """Open a file for unbuffered reading; an OSError in the `with` block becomes UnreadableCheckpoint."""
    try:
        with file.open("rb", buffering=0) as opened:
            yield opened
    except OSError as error:
        raise UnreadableCheckpoint(f"{file} cannot be read: {first_line(error)}") from error


def read_into(buffer: Array, opened: BinaryIO, offset: int) -> Array:
    """Fill `buffer` with the file's bytes from `offset` on, and return it; raises OSError."""
    view, done = buffer.data, 0
    opened.seek(offset)
    while done < len(view):
        count = opened.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise OSError(f"{opened.name} ends too early.")
        done += count
    return buffer


def convert(raw: Array, tensor: Stored, parameter: Parameter, *, dtype: DTypeLike) -> Array:
    """Return the bytes of a tensor as a new array in this package's layout and `dtype`.

    A few rows are converted at a time, so that they stay in the processor's cache.
    """
    values, cast = values_of(raw, tensor), casting(tensor, dtype)
    out = aligned(parameter.shape, dtype)
    if values.ndim < 2:
        out[...] = cast(values)
        return out
    for start in range(0, len(values), ROWS):
        rows = slice(start, start + ROWS)
        block = cast(values[rows])
        if parameter.leaf == "kernel":
            out[..., rows] = arrange(block, (*parameter.shape[:-1], len(block)), parameter.leaf)
        else:
            out[rows] = block
    return out


def quantised(raw: Array, tensor: Stored, parameter: Parameter) -> tuple[Array, Array]:
    """Return a linear map's kernel (in, out) as INT8 numbers, and the scale of each output, (out,) float32.

    A weight is its number times the scale of its output, whose largest weight is 127 or -127 unless all are
    nearly 0. The scale of values that are no numbers is none either, so that they are in every result of that
    output.
    """
    values, cast = values_of(raw, tensor), casting(tensor, np.float32)
    numbers, scales = aligned(parameter.shape, np.int8), aligned(parameter.shape[-1:], np.float32)
    for start in range(0, len(values), ROWS_OF_BYTES):
        rows = slice(start, start + ROWS_OF_BYTES)
        block = cast(values[rows])
        block = block.reshape(len(block), -1)
        # Below the smallest normal number a scale is inexact, or 0, and devices read it as 0.
        scales[rows] = np.maximum(np.abs(block).max(axis=1) / MOST_INT8, np.finfo(np.float32).tiny)
        with np.errstate(invalid="ignore"):
            numbers[:, rows] = np.rint(block / scales[rows, None]).T
    return numbers, scales


def values_of(raw: Array, tensor: Stored) -> Array:
    """Return the bytes of a tensor as a view in its shape, without its scale."""
    shape = tensor.shape[::-1] if tensor.transposed else tensor.shape
    values = raw.view(NUMPY_DTYPES.get(tensor.dtype, np.uint8)).reshape(shape)
    values = values.T if tensor.transposed else values
    return np.roll(values, len(values) // 2, axis=0) if tensor.exchanged else values


def casting(tensor: Stored, dtype: DTypeLike) -> Callable[[Array], Array]:
    """Return the function from a tensor's values in its file to its values in `dtype`, with their scale.

    Values of one byte are looked up, which is three times as fast as their conversion, and half precision is
    converted by way of float32, as fast.
    """
    scale = np.float32(tensor.scale)
    if tensor.dtype in BYTES:
        every = np.arange(256, dtype=np.uint8).view(BYTES[tensor.dtype]).astype(np.float32)
        of_bytes = (every * scale).astype(dtype)
        return lambda values: of_bytes[values]

    def cast(values: Array) -> Array:
        if values.dtype == np.float16 or scale != 1:
            values = values.astype(np.float32)
        return (values * scale if scale != 1 else values).astype(dtype, copy=False)

    return cast


def aligned(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return an uninitialised array with the alignment that JAX needs.

    A large array is allocated in normal pages. numpy asks for huge pages, for which the system compacts
    memory at each allocation; that takes longer than the rest of the load.
    """
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if size >= LARGE:
        return np.frombuffer(mmap.mmap(-1, size, **PRIVATE), np.uint8).view(kind).reshape(shape)
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(kind).reshape(shape)
