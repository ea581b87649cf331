"""Embeddings (textual inversion) from their files: vectors that stand for a word of a prompt.

A file has one tensor of any name, (vectors, width), or two for two text encoders: `clip_l` and `clip_g`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.family import VECTORS, TextEncoders
from sdjax_engine.weights.checkpoint import Checkpoint
from sdjax_engine.weights.load import Put
from sdjax_engine.weights.reading import BYTES
from sdjax_engine.weights.tensors import STORED_DTYPES, Stored, read_header, shorten

DTYPES = STORED_DTYPES - BYTES.keys()
OF_TWO = ("clip_l", "clip_g")
"""The tensors of a file for two text encoders, in the order of the encoders."""
OF_WEB_UI = "emb_params"
"""The tensor in files of AUTOMATIC1111's web UI, which may have others beside it."""
LARGEST = 1e6
"""Of a value of a vector; those of known ones are below 100."""
ROWS = 64
"""A bank has a multiple of so many rows: other embeddings then seldom need another program."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingFile:
    """A file that fits a checkpoint: its tensors, one for each text encoder, of `count` vectors each."""

    file: Path
    tensors: tuple[str, ...]
    count: int


def read_embeddings(files: Mapping[str, Path], texts: TextEncoders) -> dict[str, EmbeddingFile]:
    """Return what the headers of files say, by the names of the embeddings.

    Raises UnreadableCheckpoint with every problem of every file.
    """
    if files and not texts.widths:
        raise UnreadableCheckpoint("A model of this kind takes no embeddings: leave them out.")
    found, problems = {}, []
    for name, path in files.items():
        try:
            found[name] = read_embedding(path, tuple(texts.widths.values()), most=texts.most_vectors)
        except UnreadableCheckpoint as error:
            problems.append(str(error))
    if problems:
        raise UnreadableCheckpoint(" ".join(problems))
    return found


def read_embedding(path: Path, widths: tuple[int, ...], *, most: int) -> EmbeddingFile:
    """Read the header of the embedding at `path` for text encoders whose words have vectors of `widths`.

    Raises UnreadableCheckpoint, in one sentence, unless it has 1 to `most` vectors for each encoder.
    """
    file = path.expanduser()
    if not file.is_file():
        raise UnreadableCheckpoint(f"There is no embedding file {path}.")
    tensors, _ = read_header(file)
    names = names_of_tensors(tensors)
    if names is None:
        raise UnreadableCheckpoint(
            f"{file} is no embedding, which has one tensor, or {' and '.join(OF_TWO)}: it has "
            f"{shorten(sorted(tensors)) or 'none'}."
        )
    shapes = {name: tensors[name].shape for name in names}
    shapes = {name: shape if len(shape) == 2 else (1, *shape) for name, shape in shapes.items()}
    strange = [
        f"{name} ({tensors[name].dtype}) has the shape {tensors[name].shape}"
        for name, shape in shapes.items()
        if len(shape) != 2 or tensors[name].dtype not in DTYPES
    ]
    if strange:
        raise UnreadableCheckpoint(f"{file} is no embedding: {'; '.join(strange)}.")
    counts, found = zip(*shapes.values(), strict=True)
    if found != widths:
        raise UnreadableCheckpoint(
            f"{file} does not fit the model as an embedding: its vectors have the width {joined(found)}, and "
            f"the model's words {joined(widths)}."
        )
    if len(set(counts)) > 1 or not 0 < counts[0] <= most:
        raise UnreadableCheckpoint(
            f"{file} has {joined(counts)} vectors, and an embedding has 1 to {most}, as many for each "
            "text encoder."
        )
    return EmbeddingFile(file=file, tensors=names, count=counts[0])


def joined(numbers: Iterable[int]) -> str:
    return " and ".join(map(str, numbers))


def names_of_tensors(tensors: Mapping[str, Stored]) -> tuple[str, ...] | None:
    """Return the names of the tensors that hold vectors, or None for the tensors of something else."""
    if tensors.keys() == set(OF_TWO):
        return OF_TWO
    if OF_WEB_UI in tensors:
        return (OF_WEB_UI,)
    return tuple(tensors) if len(tensors) == 1 else None


def rows_of(found: Mapping[str, EmbeddingFile]) -> dict[str, range]:
    """Return the rows of each embedding in the banks."""
    spans, first = {}, 0
    for name, each in found.items():
        spans[name] = range(first, first + each.count)
        first += each.count
    return spans


def read_banks(found: Mapping[str, EmbeddingFile], texts: TextEncoders) -> dict[str, npt.NDArray[np.float32]]:
    """Return the bank of each text encoder, (rows, width), by component; raises UnreadableCheckpoint."""
    spans = rows_of(found)
    needed = sum(map(len, spans.values()))
    banks = {
        component: np.zeros((-(-needed // ROWS) * ROWS, width), np.float32)
        for component, width in texts.widths.items()
    }
    for name, each in found.items():
        with safe_open(each.file, "np") as opened:
            for bank, tensor in zip(banks.values(), each.tensors, strict=True):
                with np.errstate(over="ignore"):
                    vectors = opened.get_tensor(tensor).astype(np.float32)
                if not (np.abs(vectors) <= LARGEST).all():  # not numbers, too
                    raise UnreadableCheckpoint(
                        f"{each.file} holds values that are not numbers, or beyond {LARGEST:g}."
                    )
                bank[spans[name].start : spans[name].stop] = vectors
    return banks


def with_embeddings(
    checkpoint: Checkpoint, rows: Mapping[str, range], banks: Mapping[str, npt.NDArray[Any]], put: Put
) -> Checkpoint:
    """Return the checkpoint with embeddings of these rows of its text encoders' banks, which `put` places."""
    components = dict(checkpoint.components)
    for name, bank in banks.items():
        parameters = components[name].parameters
        vectors = put(bank.astype(np.dtype(components[name].dtype)))
        components[name] = replace(components[name], parameters=parameters | {VECTORS: vectors})
    return replace(checkpoint, components=components, embeddings=rows)
