"""Pictures that the device paints against those of `diffusers` on torch, which computes on the CPU.

    python benchmarks/accelerator_parity.py --on cpu|gpu|tpu [--torch-python PYTHON]

The demo checkpoint, the same first noise, 20 steps; the reference computes in float32. Differences are of
values from 0 to 255. In float32 the device computes full products (`JAX_DEFAULT_MATMUL_PRECISION=highest`).
The status is 1 where a mean difference is above its limit.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from conditions import print_conditions
from engine import ON_CPU, Row, Side, first_noise
from engine_checkpoints import checkpoint
from engine_peers import PeerTask

LIMITS = {"float32": 0.05, "bfloat16": 4.0}
"""The most that pictures of each dtype may differ in the mean."""
SAMPLERS = ("ddim", "euler")


def main() -> None:
    options = options_given()
    os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
    print_conditions("jax", "jaxlib", "torch", "diffusers")
    print("\n| sampler | dtype | pictures | largest | in the mean | limit |\n|---|---|---|---|---|---|")
    exceeded = []
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        for sampler in SAMPLERS:
            row = replace(ON_CPU[0], sampler=sampler, batch=4)
            told = task(row, room)
            reference = painted("torch", told, "cpu", room, options.torch_python)
            for dtype, limit in LIMITS.items():
                if options.on == "cpu" and dtype != "float32":
                    continue  # a CPU emulates it, which says nothing about an accelerator
                device = replace(told, dtype=dtype, platform=options.on)
                ours = painted("ours", device, options.on, room, None)
                count = min(len(ours), len(reference))
                apart = np.abs(ours[:count] - reference[:count])
                exceeded += [f"{sampler} in {dtype}"] * bool(apart.mean() > limit)
                figures = f"{count} | {apart.max()} | {apart.mean():.4f} | {limit}"
                print(f"| {sampler} | {dtype} | {figures} |", flush=True)
    if exceeded:
        raise SystemExit(f"too far from the reference: {', '.join(exceeded)}")


def options_given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--on", choices=("cpu", "gpu", "tpu"), required=True)
    parser.add_argument("--torch-python", help="the Python with torch; by default this one")
    return parser.parse_args()


def task(row: Row, room: Path) -> PeerTask:
    """Return what both sides paint."""
    folder = checkpoint(row.checkpoint, room)
    return PeerTask(
        folder=str(folder),
        noise=first_noise(row, folder, room / "noise.npy"),
        save="",
        platform="cpu",
        **{name: getattr(row, name) for name in ("side", "steps", "guidance", "dtype", "sampler", "batch")},
    )


def painted(peer: str, told: PeerTask, on: str, room: Path, python: str | None) -> np.ndarray:
    """Return the pictures of one side, (count, height, width, 3)."""
    side = Side(peer, replace(told, save=str(room / f"{peer}.npy")), on=on, torch_python=python)
    try:
        return side.pictures
    finally:
        side.close()


if __name__ == "__main__":
    main()
