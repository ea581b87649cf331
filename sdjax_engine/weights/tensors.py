"""The tensors of safetensors files, read from headers, and the parameter that each of them is.

Parameters have the reference's paths, with three differences: a weight is called `kernel` (of linear maps
and convolutions), `scale` (of norms) or `embedding`; kernels are (in, out) and (height, width, in, out), not
(out, in) and (out, in, height, width) as in the reference; and a 1×1 convolution is a linear map. Files and
configuration must match exactly.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from sdjax_engine.errors import UnreadableCheckpoint, first_line, in_bytes, quoted
from sdjax_engine.models.config import Config
from sdjax_engine.models.kinds import KINDS

NO_VALUES: Config = MappingProxyType({})
PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
HEADER_START = b"{"
POINTER_START = b"version https://git-lfs"
LONGEST_NAME = 255  # characters of a tensor's name; known ones have up to 130
LONGEST_HEADER = 32 * 2**20  # bytes; thousands of tensors with training metadata take one or two
NUMBERS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}
WHY_NO_PICKLES = "reading a pickle can run any code: save the checkpoint as safetensors"


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A tensor in a file: its shape, the code of its dtype, its offset in the file, its size in bytes.

    `transposed`: the file holds a matrix whose rows are this tensor's columns. `exchanged`: the file has the
    second half of its rows first. The tensor's values are those in the file times `scale`.
    """

    file: Path
    shape: tuple[int, ...]
    dtype: str
    offset: int
    size: int
    transposed: bool = False
    exchanged: bool = False
    scale: float = 1.0

    def turned(self) -> Stored:
        """The tensor with `transposed` inverted and its shape reversed."""
        return replace(self, shape=self.shape[::-1], transposed=not self.transposed)

    def share(self, index: int, count: int) -> Stored:
        """The `index`th of `count` equal shares along the first axis; raises UnreadableCheckpoint."""
        if count == 1:
            return self
        if not self.shape or self.shape[0] % count:
            raise UnreadableCheckpoint(
                f"{self.file} has a tensor of the shape {self.shape}, which cannot be divided among {count} "
                "layers."
            )
        rows, size = self.shape[0] // count, self.size // count
        return replace(self, shape=(rows, *self.shape[1:]), offset=self.offset + index * size, size=size)


def read_header(file: Path) -> tuple[dict[str, Stored], dict[str, str]]:
    """Return the tensors of a safetensors file by name, and its notes; reads the header alone.

    Raises UnreadableCheckpoint for an incomplete file, and for names that no message could quote.
    """
    check_start(file)
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if LONGEST_HEADER < length < file.stat().st_size:
                raise UnreadableCheckpoint(f"{file} has a header of more than {in_bytes(LONGEST_HEADER)}.")
            with safe_open(file, "np"):  # checks that the tensors fill the file exactly
                described = json.loads(opened.read(length))
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise UnreadableCheckpoint(f"{file} is not a whole safetensors file: {first_line(error)}") from error
    notes = described.pop("__metadata__", None) or {}
    found = {}
    for name, each in described.items():
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise UnreadableCheckpoint(f"{file} has a tensor whose name is none of a layer: {quoted(name)}.")
        shape, (begin, end) = tuple(each["shape"]), each["data_offsets"]
        found[name] = Stored(
            file=file, shape=shape, dtype=each["dtype"], offset=8 + length + begin, size=end - begin
        )
    return found, notes


def read_numbers(file: Path, tensors: Mapping[str, Stored]) -> dict[str, float]:
    """Return the tensors of one number each, by name; those of another count or dtype are left out.

    Raises UnreadableCheckpoint.
    """
    kinds = {name: NUMBERS.get(each.dtype) for name, each in tensors.items() if math.prod(each.shape) == 1}
    found = {}
    try:
        with file.open("rb") as opened:
            for name, kind in kinds.items():
                if kind is not None:
                    opened.seek(tensors[name].offset)
                    found[name] = float(np.frombuffer(opened.read(tensors[name].size), kind)[0])
    except (OSError, ValueError) as error:
        raise UnreadableCheckpoint(f"{file} cannot be read: {first_line(error)}") from error
    return found


def check_start(file: Path) -> None:
    """Raise UnreadableCheckpoint for a file of another format, recognised by its first bytes."""
    try:
        with file.open("rb") as opened:
            start = opened.read(32)
    except OSError as error:
        raise UnreadableCheckpoint(f"{file} cannot be read: {first_line(error)}") from error
    if not start:
        raise UnreadableCheckpoint(f"{file} is empty, and so not a whole safetensors file.")
    # The length of a header may begin with a pickle's bytes; the header itself begins at the ninth byte.
    if start.startswith(PICKLE_STARTS) and not start.startswith(HEADER_START, 8):
        raise UnreadableCheckpoint(f"{file} is a pickle, and {WHY_NO_PICKLES}.")
    if start.startswith(POINTER_START):
        raise UnreadableCheckpoint(
            f"{file} is a pointer of Git LFS, not a whole safetensors file: fetch it with `git lfs pull`."
        )


WEIGHT_LEAVES = {"kernel": "weight", "scale": "weight", "embedding": "weight"}
ONE_BY_ONE = frozenset(
    {"conv_shortcut", "quant_conv", "post_quant_conv", "controlnet_down_blocks", "controlnet_mid_block"}
)
"""The linear maps that are convolutions in the reference."""


def reference_name(path: Sequence[str | int]) -> str:
    """Return the reference's name of the parameter at `path`."""
    *modules, leaf = path
    return ".".join([*map(str, modules), WEIGHT_LEAVES.get(str(leaf), str(leaf))])


def current_name(model: str, name: str, config: Config = NO_VALUES) -> str | None:
    """Return the present name of a tensor in a file of a network of class `model` with this configuration.

    None for tensors that are not used, such as position ids.
    """
    return None if name.endswith("embeddings.position_ids") else KINDS[model].today(name, config)


def fits(shape: Sequence[int], ours: Sequence[int], leaf: str) -> bool:
    """Return whether a tensor of `shape` in a file has the shape `ours` in this package's layout."""
    return tuple(squeezed(shape, reference_shape(ours, leaf))) == tuple(reference_shape(ours, leaf))


def reference_shape(ours: Sequence[int], leaf: str) -> tuple[int, ...]:
    """Return the shape in the reference's layout of a parameter of the shape `ours`."""
    if leaf != "kernel":
        return tuple(ours)
    *window, width_in, width_out = ours
    return (width_out, width_in, *window)


def squeezed(shape: Sequence[int], like: Sequence[int]) -> tuple[int, ...]:
    """Return `shape` without the 1×1 window of a convolution if `like` is of a linear map."""
    surplus = len(shape) - len(like)
    if len(like) == 2 and surplus > 0 and all(size == 1 for size in shape[2:]):
        return tuple(shape[:2])
    return tuple(shape)


def arrange(tensor: npt.NDArray[Any], ours: Sequence[int], leaf: str) -> npt.NDArray[Any]:
    """Return a file's tensor in this package's layout."""
    if leaf != "kernel":
        return tensor
    tensor = tensor.reshape(reference_shape(ours, leaf))
    window = range(2, tensor.ndim)
    return np.transpose(tensor, (*window, 1, 0))


def reference_layout(array: npt.NDArray[Any], path: Sequence[str | int]) -> npt.NDArray[Any]:
    """Return the parameter at `path` as a tensor in the reference's layout, the inverse of `arrange`."""
    if path[-1] != "kernel":
        return array
    window = range(array.ndim - 2)
    tensor = np.ascontiguousarray(np.transpose(array, (array.ndim - 1, array.ndim - 2, *window)))
    is_convolution = tensor.ndim == 2 and not ONE_BY_ONE.isdisjoint(map(str, path))
    return tensor[:, :, None, None] if is_convolution else tensor


STORED_DTYPES = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})
SCALE = ".scale_weight"  # ComfyUI's, beside a weight in 8 bits, whose values it multiplies
UNUSED = re.compile(
    r".*\.scale_input|(.+\.)?scaled_fp8"
)  # for arithmetic in 8 bits, and the mark of its files
MOST_LISTED = 10


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


KERNEL, KERNEL_SCALE = ".kernel", ".kernel_scale"
"""The ends of the paths of a kernel, and of the scales of its outputs if it is INT8."""


def scale_key(kernel: str) -> str:
    """Return the path of the scales of the kernel at this path."""
    return kernel.removesuffix(KERNEL) + KERNEL_SCALE


def reference_names(shapes: Iterable[tuple[tuple[str | int, ...], Sequence[int]]]) -> dict[str, Parameter]:
    """Return the parameters of these paths and shapes by the reference's names."""
    return {reference_name(path): Parameter(path=path, shape=tuple(shape)) for path, shape in shapes}


def scaled(file: Path, tensors: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return the tensors of a file's header, each with the scale that lies beside it.

    Raises UnreadableCheckpoint.
    """
    scales = scales_in(file, tensors)
    return {
        name: replace(each, scale=scales.get(name.removesuffix(".weight") + SCALE, 1.0))
        for name, each in tensors.items()
        if name not in scales and not UNUSED.fullmatch(name)
    }


def scales_in(file: Path, tensors: Mapping[str, Stored]) -> dict[str, float]:
    """Return the scales of weights, by their own names; raises UnreadableCheckpoint."""
    beside = {
        name: each
        for name, each in tensors.items()
        if name.endswith(SCALE) and f"{name.removesuffix(SCALE)}.weight" in tensors
    }
    numbers = read_numbers(file, beside) if beside else {}
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def tensors_in(file: Path) -> dict[str, Stored]:
    """Return the tensors of a file by their names in it, with their scales; raises UnreadableCheckpoint."""
    tensors, _ = read_header(file)
    return scaled(file, tensors)


def stored_tensors(model: str, files: Sequence[Path], config: Config = NO_VALUES) -> dict[str, Stored]:
    """Return the tensors in the files of a network of class `model` by today's names, reading headers only.

    A network of which files hold more than is built needs its `config`, with all its values.
    Raises UnreadableCheckpoint for an incomplete safetensors file.
    """
    found = {}
    for file in files:
        for name, stored in tensors_in(file).items():
            current = current_name(model, name, config)
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
