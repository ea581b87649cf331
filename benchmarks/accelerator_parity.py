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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from conditions import print_conditions
from engine import ON_CPU, Row, Side, first_noise
from engine_checkpoints import checkpoint
from engine_peers import PeerTask

LIMITS = {"float32": 0.05, "bfloat16": 4.0}
"""The most that pictures of each dtype may differ in the mean."""
SAMPLERS = ("ddim", "euler")
CORES_OF_A_SIDE = 2


def main() -> None:
    options = options_given()
    os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # several processes share a GPU
    print_conditions("jax", "jaxlib", "torch", "diffusers")
    print("\n| sampler | dtype | pictures | largest | in the mean | limit |\n|---|---|---|---|---|---|")
    # A CPU emulates bfloat16, which says nothing about an accelerator.
    dtypes = ("float32",) if options.on == "cpu" else tuple(LIMITS)
    exceeded = []
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(sides_at_once()) as pool:
        room, python = Path(name), options.torch_python
        told = {sampler: task(replace(ON_CPU[0], sampler=sampler, batch=4), room) for sampler in SAMPLERS}
        references = {each: pool.submit(painted, "torch", told[each], "cpu", room, python) for each in told}
        ours = {
            (sampler, dtype): pool.submit(
                painted, "ours", replace(told[sampler], dtype=dtype, platform=options.on), options.on, room
            )
            for sampler, dtype in product(told, dtypes)
        }
        for (sampler, dtype), pictures in ours.items():
            reference, limit = references[sampler].result(), LIMITS[dtype]
            count = min(len(pictures.result()), len(reference))
            apart = np.abs(pictures.result()[:count] - reference[:count])
            exceeded += [f"{sampler} in {dtype}"] * bool(apart.mean() > limit)
            figures = f"{count} | {apart.max()} | {apart.mean():.4f} | {limit}"
            print(f"| {sampler} | {dtype} | {figures} |", flush=True)
    if exceeded:
        raise SystemExit(f"too far from the reference: {', '.join(exceeded)}")


def sides_at_once() -> int:
    """Return how many processes may paint at once: each compiles with some cores."""
    return max(1, len(os.sched_getaffinity(0)) // CORES_OF_A_SIDE)


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


def painted(peer: str, told: PeerTask, on: str, room: Path, python: str | None = None) -> np.ndarray:
    """Return the pictures of one side, (count, height, width, 3)."""
    save = room / f"{peer}-{told.sampler}-{told.dtype}.npy"
    side = Side(peer, replace(told, save=str(save)), on=on, torch_python=python)
    try:
        return side.pictures
    finally:
        side.close()


if __name__ == "__main__":
    main()
