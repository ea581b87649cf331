"""The choice of an attention kernel by platform, dtype and widths, and the start-up's report of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from sdjax_engine.models.attention_choice import AttentionShape, Backend, Kernel, Use, choose, describe

CPU = Backend(platform="cpu")
HOPPER = Backend(platform="gpu", widest=dict.fromkeys(Use, 256))
AMPERE = Backend(platform="gpu", widest=dict.fromkeys(Use, 128))
BROKEN = Backend(platform="gpu", problem="cuDNN does not work here: no valid engine.")
WITHOUT_TEXTS = Backend(
    platform="gpu",
    widest={Use.PICTURES: 256, Use.PROMPTS: 128},
    problem="cuDNN does not work here for texts: no valid engine.",
)
TPU = Backend(platform="tpu", widest={Use.PICTURES: 512})
ODD_TPU = Backend(platform="tpu", problem="Pallas flash attention does not work here: no Mosaic.")

SELF = AttentionShape(rows=8, queries=4096, keys=4096, heads=8, width=40, dtype="bfloat16")
CROSS = dataclasses.replace(SELF, keys=231, lengths=True)
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
        (WITHOUT_TEXTS, TEXT, Kernel.XLA),
        (WITHOUT_TEXTS, SELF, Kernel.CUDNN),
        (WITHOUT_TEXTS, CROSS, Kernel.CUDNN),
        (WITHOUT_TEXTS, but(CROSS, keys=77, lengths=False, width=160), Kernel.XLA),
        (BROKEN, SELF, Kernel.XLA_IN_PARTS),
        (BROKEN, SMALL, Kernel.XLA),
        (TPU, SELF, Kernel.FLASH),
        (TPU, but(SELF, dtype="float32"), Kernel.FLASH),
        (TPU, PICTURE, Kernel.FLASH),
        (TPU, CROSS, Kernel.XLA),
        (TPU, TEXT, Kernel.XLA),
        (TPU, but(SELF, queries=1056, keys=1056), Kernel.XLA_IN_PARTS),
        (TPU, SMALL, Kernel.XLA),
        (ODD_TPU, SELF, Kernel.XLA_IN_PARTS),
        (CPU, SELF, Kernel.BY_HEAD_IN_PARTS),
        (CPU, CROSS, Kernel.BY_HEAD_IN_PARTS),
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
        (HOPPER, "bfloat16", "attention: cuDNN for heads up to 256 wide, XLA for others"),
        (
            HOPPER,
            "float32",
            "attention: XLA, because cuDNN computes in bfloat16 and float16 and not in float32",
        ),
        (
            WITHOUT_TEXTS,
            "bfloat16",
            "attention: cuDNN for heads up to 256 wide, XLA for others; cuDNN does not work here for texts: "
            "no valid engine.",
        ),
        (BROKEN, "bfloat16", "attention: XLA, because cuDNN does not work here: no valid engine."),
        (TPU, "bfloat16", "attention: Pallas flash attention from 1024 tokens on, XLA for others"),
        (ODD_TPU, "float32", "attention: XLA, because Pallas flash attention does not work here: no Mosaic."),
        (CPU, "float32", "attention: XLA, head by head, long ones in parts that fit into the cache"),
    ],
)
def test_the_start_reports_the_choice_and_its_reason(backend: Backend, dtype: str, line: str) -> None:
    assert describe(backend, dtype) == line
