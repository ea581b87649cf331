"""Embeddings are read strictly: a file that does not fit is refused in one sentence that says why."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import save_file

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights.embeddings import ROWS, read_banks, read_embeddings, rows_of

SD_1, SDXL = {"text_encoder": 4}, {"text_encoder": 4, "text_encoder_2": 6}


class Texts:
    """Text encoders whose words have vectors of these widths; an embedding may have three."""

    most_vectors = 3

    def __init__(self, widths: Mapping[str, int]) -> None:
        self.widths = widths


def vectors(*shape: int, dtype: Any = np.float32) -> npt.NDArray[Any]:
    return np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(dtype)


def saved(folder: Path, tensors: Mapping[str, npt.NDArray[Any]], name: str = "cat.safetensors") -> Path:
    save_file(dict(tensors), folder / name)
    return folder / name


@pytest.mark.parametrize(
    ("tensors", "widths", "counts"),
    [
        ({"<cat>": vectors(2, 4)}, SD_1, 2),
        ({"anything": vectors(4, dtype=np.float16)}, SD_1, 1),
        ({"emb_params": vectors(3, 4, dtype=ml_dtypes.bfloat16), "step": vectors(1)}, SD_1, 3),
        ({"clip_g": vectors(2, 6), "clip_l": vectors(2, 4)}, SDXL, 2),
    ],
)
def test_the_vectors_of_a_file_are_rows_of_each_encoders_bank(
    tensors: dict[str, npt.NDArray[Any]], widths: dict[str, int], counts: int, tmp_path: Path
) -> None:
    before = saved(
        tmp_path, {key: vectors(1, widths[name]) for key, name in keys_of(widths)}, "a.safetensors"
    )
    texts: Any = Texts(widths)
    found = read_embeddings({"first": before, "cat": saved(tmp_path, tensors)}, texts)
    assert rows_of(found) == {"first": range(1), "cat": range(1, 1 + counts)}
    banks = read_banks(found, texts)
    assert {name: bank.shape for name, bank in banks.items()} == {
        name: (ROWS, width) for name, width in widths.items()
    }
    for name, bank in banks.items():
        np.testing.assert_array_equal(bank[1 : 1 + counts], vectors(counts, widths[name]))
        assert not bank[1 + counts :].any()


def keys_of(widths: dict[str, int]) -> list[tuple[str, str]]:
    """The tensor of each encoder in a file for them all."""
    return list(zip(("clip_l", "clip_g") if len(widths) > 1 else ("x",), widths, strict=True))


@pytest.mark.parametrize(
    ("tensors", "widths", "why"),
    [
        ({"a": vectors(2, 6)}, SD_1, r"the width 6, and the model's words 4\."),
        ({"a": vectors(2, 4)}, SDXL, r"the width 4, and the model's words 4 and 6\."),
        ({"clip_l": vectors(2, 4), "clip_g": vectors(2, 6)}, SD_1, r"the width 4 and 6, and the model's"),
        ({"clip_l": vectors(2, 4), "clip_g": vectors(1, 6)}, SDXL, r"has 2 and 1 vectors, and an embedding"),
        ({"a": vectors(4, 4)}, SD_1, r"has 4 vectors, and an embedding has 1 to 3,"),
        ({"a": vectors(0, 4)}, SD_1, r"has 0 vectors"),
        ({"a": vectors(1, 2, 4)}, SD_1, r"is no embedding: a \(F32\) has the shape \(1, 2, 4\)\."),
        ({"a": vectors(2, 4, dtype=np.int32)}, SD_1, r"is no embedding: a \(I32\)"),
        (
            {"a": vectors(2, 4), "b": vectors(2, 4)},
            SD_1,
            r"one tensor, or clip_l and clip_g: it has a, b\.",
        ),
        ({}, SD_1, r"it has none\."),
        ({"a": vectors(2, 4)}, {}, r"A model of this kind takes no embeddings"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_the_reason(
    tensors: dict[str, npt.NDArray[Any]], widths: dict[str, int], why: str, tmp_path: Path
) -> None:
    texts: Any = Texts(widths)
    with pytest.raises(UnreadableCheckpoint, match=why):
        read_embeddings({"cat": saved(tmp_path, tensors)}, texts)


def test_pickles_and_missing_files_are_refused_together(tmp_path: Path) -> None:
    (tmp_path / "old.pt").write_bytes(pickle.dumps({"string_to_param": {}}))
    files = {"old": tmp_path / "old.pt", "lost": tmp_path / "lost.safetensors"}
    texts: Any = Texts(SD_1)
    with pytest.raises(UnreadableCheckpoint, match=r"old\.pt is a pickle.*There is no embedding file .*lost"):
        read_embeddings(files, texts)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3.4e38])
def test_vectors_that_are_no_numbers_in_bfloat16_are_refused(value: float, tmp_path: Path) -> None:
    texts: Any = Texts(SD_1)
    found = read_embeddings({"cat": saved(tmp_path, {"a": np.full((1, 4), value, np.float32)})}, texts)
    with pytest.raises(UnreadableCheckpoint, match="not numbers"):
        read_banks(found, texts)
