"""The choice of an attention kernel by platform, dtype and widths, and the start-up's report of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from sdjax_engine.models.attention_choice import (
    AttentionForm,
    AttentionShape,
    Backend,
    Kernel,
    attention_line,
    choose,
)

CPU = Backend(platform="cpu")
HOPPER = Backend(platform="gpu", widest=dict.fromkeys(AttentionForm, 256))
AMPERE = Backend(platform="gpu", widest=dict.fromkeys(AttentionForm, 128))
NO_ENGINE = "no valid engine"
BROKEN = Backend(platform="gpu", refused=dict.fromkeys(AttentionForm, NO_ENGINE))
PARTLY = Backend(
    platform="gpu",
    widest={AttentionForm.PICTURES: 256, AttentionForm.PROMPTS: 160},
    refused={
        AttentionForm.PROMPTS_WITH_LENGTHS: "its results are off by 1.0e+00",
        AttentionForm.TEXTS: f"{NO_ENGINE}.",
    },
)
TPU_WIDTHS = dict.fromkeys((form for form in AttentionForm if form is not AttentionForm.TEXTS), 512)
TPU = Backend(platform="tpu", widest=TPU_WIDTHS)
TPU_WITHOUT_LENGTHS = Backend(
    platform="tpu",
    widest={AttentionForm.PICTURES: 512, AttentionForm.PROMPTS: 128},
    refused={AttentionForm.PROMPTS_WITH_LENGTHS: "no Mosaic"},
)
ODD_TPU = Backend(platform="tpu", refused=dict.fromkeys(TPU_WIDTHS, "no Mosaic"))

SELF = AttentionShape(rows=8, queries=4096, keys=4096, heads=8, width=40, dtype="bfloat16")
PROMPT = dataclasses.replace(SELF, keys=77)
CROSS = dataclasses.replace(SELF, keys=231, lengths=True)
JOINT = AttentionShape(rows=2, queries=4608, keys=4608, heads=30, width=128, dtype="bfloat16", lengths=True)
TEXT = AttentionShape(rows=1, queries=77, keys=77, heads=12, width=64, dtype="bfloat16", causal=True)
PICTURE = AttentionShape(rows=1, queries=16384, keys=16384, heads=1, width=512, dtype="bfloat16")
SMALL = AttentionShape(rows=2, queries=64, keys=64, heads=8, width=160, dtype="bfloat16")


def but(shape: AttentionShape, **changes: Any) -> AttentionShape:
    return dataclasses.replace(shape, **changes)


@pytest.mark.parametrize(
    ("backend", "shape", "kernel"),
    [
        (HOPPER, SELF, Kernel.CUDNN),
        (HOPPER, CROSS, Kernel.CUDNN),
        (HOPPER, JOINT, Kernel.CUDNN),
        (HOPPER, TEXT, Kernel.CUDNN),
        (HOPPER, but(SELF, width=160, queries=256, keys=256), Kernel.CUDNN),
        (HOPPER, but(SELF, dtype="float16"), Kernel.CUDNN),
        (HOPPER, but(SELF, dtype="float32"), Kernel.XLA_IN_PARTS),
        (HOPPER, but(SMALL, dtype="float32"), Kernel.XLA),
        (HOPPER, but(SELF, width=36), Kernel.XLA_IN_PARTS),
        (HOPPER, but(SMALL, queries=16), Kernel.XLA),
        (HOPPER, PICTURE, Kernel.XLA_IN_PARTS),
        (AMPERE, but(SMALL, width=128), Kernel.CUDNN),
        (AMPERE, SMALL, Kernel.XLA),
        (PARTLY, TEXT, Kernel.XLA),
        (PARTLY, SELF, Kernel.CUDNN),
        (PARTLY, CROSS, Kernel.XLA),
        (PARTLY, JOINT, Kernel.XLA_IN_PARTS),
        (PARTLY, but(PROMPT, width=160), Kernel.CUDNN),
        (PARTLY, but(PROMPT, width=168), Kernel.XLA),
        (BROKEN, SELF, Kernel.XLA_IN_PARTS),
        (BROKEN, SMALL, Kernel.XLA),
        (TPU, SELF, Kernel.FLASH),
        (TPU, but(SELF, dtype="float32"), Kernel.FLASH),
        (TPU, PICTURE, Kernel.FLASH),
        (TPU, PROMPT, Kernel.FEW_KEYS),
        (TPU, CROSS, Kernel.FEW_KEYS),
        (TPU, JOINT, Kernel.FLASH),
        (TPU, but(JOINT, queries=512, keys=512), Kernel.XLA),
        (TPU, but(CROSS, queries=1024, keys=616, heads=20, width=64), Kernel.FEW_KEYS),
        (TPU, but(CROSS, queries=1024, keys=616, heads=20, width=64, dtype="float32"), Kernel.XLA_IN_PARTS),
        (TPU, but(CROSS, queries=256), Kernel.XLA),
        (TPU, but(CROSS, queries=1056), Kernel.XLA),
        (TPU_WITHOUT_LENGTHS, PROMPT, Kernel.FEW_KEYS),
        (TPU_WITHOUT_LENGTHS, but(PROMPT, width=160), Kernel.XLA),
        (TPU_WITHOUT_LENGTHS, CROSS, Kernel.XLA),
        (TPU, TEXT, Kernel.XLA),
        (TPU, but(SELF, queries=1056, keys=1056), Kernel.XLA_IN_PARTS),
        (TPU, SMALL, Kernel.XLA),
        (ODD_TPU, SELF, Kernel.XLA_IN_PARTS),
        (CPU, SELF, Kernel.BY_HEAD_IN_PARTS),
        (CPU, CROSS, Kernel.BY_HEAD_IN_PARTS),
        (CPU, JOINT, Kernel.BY_HEAD_IN_PARTS),
        (CPU, SMALL, Kernel.BY_HEAD),
        (CPU, TEXT, Kernel.BY_HEAD),
        (CPU, but(TEXT, rows=1000), Kernel.BY_HEAD),
        (Backend(platform="rocm"), SMALL, Kernel.XLA),
    ],
)
def test_each_shape_gets_the_fastest_supported_kernel(
    backend: Backend, shape: AttentionShape, kernel: Kernel
) -> None:
    assert choose(shape, backend) is kernel


@pytest.mark.parametrize(
    ("backend", "dtype", "line"),
    [
        (HOPPER, "bfloat16", "cuDNN for heads up to 256 wide, XLA for others"),
        (HOPPER, "float32", "XLA, because cuDNN computes in bfloat16 and float16 and not in float32"),
        (
            PARTLY,
            "bfloat16",
            "cuDNN for heads up to 256 wide (pictures), 160 wide (prompts), XLA for others; cuDNN does not "
            "work here for prompts with lengths: its results are off by 1.0e+00; for texts: no valid engine",
        ),
        (BROKEN, "bfloat16", "XLA, because cuDNN does not work here: no valid engine"),
        (
            TPU,
            "bfloat16",
            "Pallas from 1024 tokens of a picture on for heads up to 512 wide, XLA for others",
        ),
        (ODD_TPU, "float32", "XLA, because Pallas does not work here: no Mosaic"),
        (CPU, "float32", "XLA, head by head, long ones in parts that fit into the cache"),
    ],
)
def test_the_start_reports_the_choice_and_its_reasons(backend: Backend, dtype: str, line: str) -> None:
    assert attention_line(backend, dtype) == f"attention: {line}"


def test_executables_depend_on_what_each_form_takes() -> None:
    assert PARTLY.key == {"pictures": 256, "prompts": 160}
    assert TPU.key != TPU_WITHOUT_LENGTHS.key
