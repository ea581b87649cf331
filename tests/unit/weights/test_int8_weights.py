"""Weights rounded to INT8: each within half a step of its own output, from files of every dtype."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import save_file

from sdjax_engine.weights.reading import MOST_INT8, arrays
from sdjax_engine.weights.tensors import Parameter, tensors_in

Array = npt.NDArray[np.float32]
OUTPUTS, INPUTS = 70, 48
NAME = "layers.0.self_attn.q_proj.weight"
WANTED = {NAME: Parameter(path=("layers", 0, "self_attn", "q_proj", "kernel"), shape=(INPUTS, OUTPUTS))}


def weights() -> torch.Tensor:
    """Outputs of very different sizes, one of zeros alone."""
    made = torch.randn((OUTPUTS, INPUTS), generator=torch.Generator().manual_seed(1))
    made *= torch.logspace(-2, 2, OUTPUTS)[:, None]
    made[7] = 0
    return made


def read(file: Path, tensor: torch.Tensor) -> tuple[Array, Array]:
    """The numbers and the scales of a weight in a file."""
    save_file({NAME: tensor.contiguous()}, file)
    (key, numbers), (key_of_scales, scales) = arrays(
        tensors_in(file), WANTED, dtype=np.float32, in_int8=WANTED.__contains__
    )
    assert (key, key_of_scales) == (
        "layers.0.self_attn.q_proj.kernel",
        "layers.0.self_attn.q_proj.kernel_scale",
    )
    assert (numbers.dtype, scales.dtype) == (np.int8, np.float32)
    return numbers, scales


def largest_error(numbers: Array, scales: Array, true: Array) -> float:
    """The largest error of a weight, in halves of the step that its output has."""
    step = np.abs(true).max(axis=0) / MOST_INT8
    return float((np.abs(numbers * scales - true) / np.where(step == 0, 1, step)).max() * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_a_weight_is_rounded_within_half_a_step_of_its_own_output(tmp_path: Path, dtype: torch.dtype) -> None:
    stored = weights().to(dtype)
    true = stored.float().numpy().T
    numbers, scales = read(tmp_path / "weights.safetensors", stored)
    assert largest_error(numbers, scales, true) <= 1 + 1e-3
    assert np.abs(numbers.astype(np.int32)).max(axis=0).tolist() == [
        MOST_INT8 if any(column) else 0 for column in true.T
    ]
    by_input = np.abs(true).max(axis=1, keepdims=True) / MOST_INT8
    assert largest_error(np.rint(true / by_input), by_input, true) > 100


def test_weights_below_the_smallest_normal_number_become_nearly_nothing(tmp_path: Path) -> None:
    smallest = np.finfo(np.float32).tiny
    tiny = weights() / weights().abs().amax() * 1e-36
    tiny[3], tiny[4, 5], tiny[5, 5] = 1e-45, 2.5e-43, 1e-39
    numbers, scales = read(tmp_path / "weights.safetensors", tiny)
    assert scales.min() >= smallest
    assert np.abs(numbers * scales - tiny.numpy().T).max() <= smallest


def test_a_weight_that_is_no_number_stays_in_every_result_of_its_output(tmp_path: Path) -> None:
    broken = weights()
    broken[3, 5], broken[4, 5] = torch.nan, torch.inf
    numbers, scales = read(tmp_path / "weights.safetensors", broken)
    assert np.isfinite(scales).tolist() == [output not in {3, 4} for output in range(OUTPUTS)]
    whole = [output for output in range(OUTPUTS) if output not in {3, 4}]
    true = weights().numpy().T
    assert largest_error(numbers[:, whole], scales[whole], true[:, whole]) <= 1 + 1e-3
