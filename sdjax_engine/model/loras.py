"""The LoRAs of one model: their rows on the devices, and the rows that a request's seat gathers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike
from safetensors import safe_open

from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.families.family import ForeignNames
from sdjax_engine.models.lora_bank import Bank, Factors, LayerPath, LayerShape, shape_of
from sdjax_engine.request import Lora
from sdjax_engine.weights import Checkpoint, Component
from sdjax_engine.weights.lora import LoraFile, Shapes, read_factors, read_lora

Put = Callable[[npt.NDArray[Any]], jax.Array]
KERNEL = ".kernel"  # the suffix of linear maps and convolutions
SeatRows = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class BankRows:
    """A LoRA's rows in every bank: `rank` rows from `first` on."""

    first: int
    rank: int


@dataclass(frozen=True, kw_only=True, eq=False)
class LoraBank:
    """Every LoRA that a model offers, on the devices.

    `banks` holds the rows for each network by its component's name; a network that no LoRA adapts has none.
    `spans` are the LoRAs' rows by name. `rank` is how many rows one picture may gather for all its LoRAs
    together.
    """

    banks: Mapping[str, Bank] = field(default_factory=dict, repr=False)
    spans: Mapping[str, BankRows] = field(default_factory=dict)
    rank: int = 0

    @classmethod
    def load(
        cls, files: Mapping[str, Path], checkpoint: Checkpoint, put: Put = jax.device_put, *, rank: int = 64
    ) -> LoraBank:
        """Read the LoRAs in `files`, by the names under which they are offered, for this checkpoint.

        `put` places an array on the devices. One picture may gather `rank` rows; 0 means all rows.
        Raises UnreadableCheckpoint with every problem of every file.
        """
        if not files:
            return cls()
        components = components_of(checkpoint)
        shapes = shapes_of(components)
        loras = read_all(files, shapes, checkpoint.family.foreign_names, rank=rank)
        spans, rows = {}, 1  # seats without a LoRA gather row 0
        for name, lora in loras.items():
            spans[name] = BankRows(first=rows, rank=lora.rank)
            rows += lora.rank
        dtypes = {name: component.dtype for name, component in components.items()}
        banks = fill_banks(tuple(loras.values()), tuple(spans.values()), shapes, dtypes=dtypes, put=put)
        return cls(banks=banks, spans=spans, rank=min(rank or rows, rows - 1))

    def placed(self, put: Put) -> LoraBank:
        """Return the bank with its rows, which are in the host's memory, copied by `put`."""
        return replace(self, banks=jax.tree.map(put, self.banks))

    def rank_of(self, *components: str) -> int:
        """Return how many rows these networks gather: none where no LoRA adapts one of them."""
        return self.rank if any(name in self.banks for name in components) else 0

    def seat_rows(self, loras: Sequence[Lora]) -> SeatRows:
        """Return the rows (rank,) that a seat gathers for these LoRAs, and the scale of each (rank,).

        A LoRA that is named twice has the sum of its weights. Raises InvalidRequest.
        """
        rows, scales = np.zeros(self.rank, np.int32), np.zeros(self.rank, np.float32)
        weights: dict[str, float] = {}
        for lora in loras:
            if lora.name not in self.spans:
                raise InvalidRequest("lora", value=lora.name, choices=", ".join(self.spans))
            weights[lora.name] = weights.get(lora.name, 0.0) + lora.weight
        used = 0
        for name, weight in weights.items():
            span = self.spans[name]
            if used + span.rank > self.rank:
                raise InvalidRequest("large_loras", value=", ".join(weights), limit=self.rank)
            rows[used : used + span.rank] = np.arange(span.first, span.first + span.rank)
            scales[used : used + span.rank] = weight
            used += span.rank
        return rows, scales

    def __str__(self) -> str:
        """Return the line for the start-up: names, ranks, layers and memory."""
        names = ", ".join(f"{name} (rank {span.rank})" for name, span in self.spans.items())
        layers = [factors for bank in self.banks.values() for factors in bank.values()]
        size = sum(each.nbytes for factors in layers for each in factors) / 2**20
        return f"{names}: {len(layers)} layers, {size:.1f} MiB; {self.rank} rows for each picture"


def components_of(checkpoint: Checkpoint) -> dict[str, Component]:
    """Return the networks that a LoRA may adapt, by the reference's names."""
    return {name: each for name, each in checkpoint.components.items() if name in checkpoint.family.adaptable}


def shapes_of(components: Mapping[str, Component]) -> dict[LayerPath, LayerShape]:
    """Return the shape of every layer that can be adapted."""
    return layer_shapes({name: component.shapes for name, component in components.items()})


def layer_shapes(parameters: Mapping[str, Mapping[str, tuple[int, ...]]]) -> dict[LayerPath, LayerShape]:
    """Return the shape of every layer that can be adapted, of networks with parameters of these shapes."""
    return {
        LayerPath(component=name, path=key.removesuffix(KERNEL)): shape_of(shape)
        for name, shapes in parameters.items()
        for key, shape in shapes.items()
        if key.endswith(KERNEL)
    }


def read_all(
    files: Mapping[str, Path], shapes: Shapes, names: ForeignNames | None = None, *, rank: int
) -> dict[str, LoraFile]:
    """Return every LoRA's header; raises UnreadableCheckpoint with every problem of every file."""
    loras, problems = {}, []
    for name, path in files.items():
        try:
            lora = read_lora(path, shapes, names)
        except UnreadableCheckpoint as error:
            problems.append(str(error))
            continue
        if 0 < rank < lora.rank:
            problems.append(f"The LoRA {lora.file} has the rank {lora.rank}: raise lora_rank, now {rank}.")
        loras[name] = lora
    if problems:
        raise UnreadableCheckpoint(" ".join(problems))
    return loras


def fill_banks(
    loras: Sequence[LoraFile],
    spans: Sequence[BankRows],
    shapes: Shapes,
    *,
    dtypes: Mapping[str, DTypeLike],
    put: Put,
) -> dict[str, dict[str, Factors]]:
    """Return the banks; the host holds the rows of one layer at a time."""
    count = 1 + sum(span.rank for span in spans)
    banks: dict[str, dict[str, Factors]] = {}
    with ExitStack() as stack:
        opened = [stack.enter_context(safe_open(lora.file, "np")) for lora in loras]
        for place in sorted({place for lora in loras for place in lora.layers}):
            shape = shapes[place]
            down = np.zeros((count, *shape.window, shape.width_in), np.float32)
            up = np.zeros((count, shape.width_out), np.float32)
            for lora, span, file in zip(loras, spans, opened, strict=True):
                if layer := lora.layers.get(place):
                    rows = slice(span.first, span.first + layer.rank)
                    down[rows], up[rows] = read_factors(file, layer, shape)
            dtype = np.dtype(dtypes[place.component])
            factors = Factors(*(put(each.astype(dtype)) for each in (down, up)))
            banks.setdefault(place.component, {})[place.path] = factors
    return banks
