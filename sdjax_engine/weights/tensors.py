"""Filling a network's parameters from safetensors files, strict both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from flax import nnx
from jax.typing import DTypeLike
from safetensors import SafetensorError, safe_open

from sdjax_engine.request import UnreadableCheckpoint
from sdjax_engine.weights.names import arrange, current_name, fits, reference_name, reference_shape
from sdjax_engine.wording import first_line

Put = Callable[[npt.NDArray[Any]], jax.Array]
STORED_DTYPES = frozenset({"F64", "F32", "F16", "BF16"})
MOST_LISTED = 10


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A tensor in a file: the file, its name there, its shape and the code of its dtype."""

    file: Path
    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter to fill: its path in the module, and the shape it has there."""

    path: tuple[str | int, ...]
    shape: tuple[int, ...]

    @property
    def leaf(self) -> str:
        return str(self.path[-1])


def parameters_of(state: nnx.State) -> dict[str, Parameter]:
    """Return the parameters of an abstract state by the reference's names."""
    return {
        reference_name(path): Parameter(path=tuple(path), shape=tuple(variable.shape))
        for path, variable in nnx.to_flat_state(state)
    }


def stored_tensors(component: str, files: Sequence[Path]) -> dict[str, Stored]:
    """Return the tensors in `files` by today's names, reading headers only.

    Raises UnreadableCheckpoint for a file that is no whole safetensors file.
    """
    found = {}
    for file in files:
        try:
            with safe_open(file, "np") as opened:
                for name in opened.keys():  # noqa: SIM118 - the opened file is no mapping
                    current = current_name(component, name)
                    if current is not None:
                        part = opened.get_slice(name)
                        found[current] = Stored(
                            file=file, name=name, shape=tuple(part.get_shape()), dtype=part.get_dtype()
                        )
        except (SafetensorError, OSError) as error:
            raise UnreadableCheckpoint(
                f"{file} is not a whole safetensors file: {first_line(error)}"
            ) from error
    return found


def find_problems(stored: Mapping[str, Stored], wanted: Mapping[str, Parameter]) -> list[str]:
    """Return a clause for each way in which the files and the configuration do not match."""
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
    """Return the names as one text, the first few where there are many."""
    text = ", ".join(names[:MOST_LISTED])
    return text if len(names) <= MOST_LISTED else f"{text} and {len(names) - MOST_LISTED} more"


def fill(
    state: nnx.State,
    *,
    stored: Mapping[str, Stored],
    wanted: Mapping[str, Parameter],
    dtype: DTypeLike,
    put: Put,
) -> nnx.State:
    """Return `state` with every abstract parameter replaced by `put` of its tensor in `dtype`.

    Tensors are read one at a time, so that the host never holds more than one of them.
    """
    values: dict[tuple[str | int, ...], jax.Array] = {}
    for file in dict.fromkeys(each.file for each in stored.values()):
        with safe_open(file, "np") as opened:
            for name, parameter in wanted.items():
                if stored[name].file == file:
                    tensor = arrange(opened.get_tensor(stored[name].name), parameter.shape, parameter.leaf)
                    values[parameter.path] = put(np.ascontiguousarray(tensor, dtype=dtype))
    return nnx.from_flat_state(
        [(path, variable.replace(values[tuple(path)])) for path, variable in nnx.to_flat_state(state)]
    )
