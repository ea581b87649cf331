"""Attention at the networks' true shapes: the kernel chosen, its error, its seconds and its memory.

    python benchmarks/attention.py [--dtype bfloat16] [--rows 2] [--repeats 5] [--shape NAME ...]

Prints the start-up's log line, then for each shape the chosen kernel and, if it is another kernel, the kernel
with all scores in memory (`by head` on the CPU, `xla` elsewhere). The error is the largest difference from a
float32 softmax of the same inputs, over the first 64 queries. Seconds are the fastest repeat. Processor
seconds are those of all host threads; on a shared machine they vary less. Memory is what the computation adds
to the peak of the process's resident memory on the CPU, and of the device's memory elsewhere. Each figure is
measured in its own process, with one device.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from conditions import print_conditions

from sdjax_engine.models.attention_choice import AttentionShape, Kernel, attention_line, choose
from sdjax_engine.models.attention_kernels import KERNELS, found_backend
from sdjax_engine.models.cross_attention_inputs import KeyValues

KEYS_WITH_LENGTHS = 231
# queries, keys (231: prompts of up to three chunks, with lengths), heads, width
SHAPES: dict[str, tuple[int, int, int, int]] = {
    "SD 1.5, 256x256": (1024, 1024, 8, 40),
    "SD 1.5, 512x512": (4096, 4096, 8, 40),
    "SD 1.5, 512x512, second level": (1024, 1024, 8, 80),
    "SD 1.5, 512x512, third level": (256, 256, 8, 160),
    "SD 1.5, 512x512, prompt": (4096, 77, 8, 40),
    "SD 1.5, 512x512, long prompts": (4096, 231, 8, 40),
    "SD 1.5, 768x768": (9216, 9216, 8, 40),
    "SDXL, 1024x1024": (4096, 4096, 10, 64),
    "SDXL, 1024x1024, second level": (1024, 1024, 20, 64),
    "SDXL, 1024x1024, prompt": (4096, 77, 10, 64),
    "SDXL, 1024x1024, long prompts": (4096, 231, 10, 64),
    "autoencoder, 512x512": (4096, 4096, 1, 512),
    "autoencoder, 1024x1024": (16384, 16384, 1, 512),
}
CHOSEN, DESCRIBE = "chosen", "describe"
COMPARED = 64
MIB = 2**20


def main() -> None:
    options = options_given()
    if options.kernel:
        print(json.dumps(measure(options)))
        return
    print_conditions("jax", "jaxlib")
    platform, line = json.loads(child(options, "", DESCRIBE)[-1])
    print(line)
    plain = Kernel.BY_HEAD if platform == "cpu" else Kernel.XLA
    print(
        "\n| shape | kernel | error | seconds | processor's seconds | peak, MiB |\n|---|---|---|---|---|---|"
    )
    for name in options.shape or SHAPES:
        chosen = None
        for kernel in (CHOSEN, plain):
            row = json.loads(child(options, name, kernel)[-1])
            if row["kernel"] == chosen:
                continue
            chosen = row["kernel"]
            times = f"{row['seconds']:.5f} | {row['processor']:.5f}"
            print(f"| {name} | {chosen} | {row['error']:.1e} | {times} | {row['peak']:.0f} |", flush=True)


def options_given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--rows", type=int, default=2, help="pictures times halves; autoencoders have one")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--shape", nargs="*", choices=SHAPES, help="all where none is named")
    parser.add_argument("--kernel", help=argparse.SUPPRESS)
    return parser.parse_args()


def child(options: argparse.Namespace, name: str, kernel: str) -> list[str]:
    """Run this file in a process for one figure; return its output."""
    command = [sys.executable, __file__, "--dtype", options.dtype, "--rows", str(options.rows)]
    command += ["--repeats", str(options.repeats), "--kernel", kernel, *(["--shape", name] if name else [])]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()


def measure(options: argparse.Namespace) -> Any:
    """Return the figures of one kernel and one shape, or the start-up's log line."""
    backend = found_backend()
    if options.kernel == DESCRIBE:
        return backend.platform, attention_line(backend, options.dtype)
    [name] = options.shape
    queries, keys, heads, width = SHAPES[name]
    shape = AttentionShape(
        rows=1 if heads == 1 else options.rows,
        queries=queries,
        keys=keys,
        heads=heads,
        width=width,
        dtype=options.dtype,
        lengths=keys == KEYS_WITH_LENGTHS,
    )
    kernel = choose(shape, backend) if options.kernel == CHOSEN else Kernel(options.kernel)
    q, keys_values = inputs(shape)
    compute = jax.jit(partial(KERNELS[kernel], causal=False)).lower(q, keys_values).compile()
    before, seconds, of_host = peak(), [], []
    for _ in range(options.repeats):
        started, started_host = time.perf_counter(), time.process_time()
        attended = jax.block_until_ready(compute(q, keys_values))
        seconds.append(time.perf_counter() - started)
        of_host.append(time.process_time() - started_host)
    added = peak() - before
    error = np.abs(np.asarray(attended[:, :COMPARED], np.float32) - exact(q[:, :COMPARED], keys_values)).max()
    figures = {"error": float(error), "seconds": min(seconds), "processor": min(of_host), "peak": added / MIB}
    return {"kernel": kernel, **figures}


def inputs(shape: AttentionShape) -> tuple[jax.Array, KeyValues]:
    """Return standard noise; with lengths, half of the rows have a shorter prompt."""
    rng = np.random.default_rng(0)

    def noise(length: int) -> jax.Array:
        values = rng.standard_normal((shape.rows, length, shape.heads, shape.width), np.float32)
        return jnp.asarray(values, shape.dtype)

    lengths = np.where(np.arange(shape.rows) % 2, 77, shape.keys).astype(np.int32)
    return noise(shape.queries), KeyValues(
        noise(shape.keys), noise(shape.keys), jnp.asarray(lengths) if shape.lengths else None
    )


def exact(queries: jax.Array, keys_values: KeyValues) -> np.ndarray:
    """Return the attention computed in float32 on the host."""
    q, k, v = (np.asarray(each, np.float32) for each in (queries, keys_values.keys, keys_values.values))
    scores = np.einsum("nthd,nshd->nhts", q, k) / np.sqrt(np.float32(q.shape[-1]))
    if keys_values.lengths is not None:
        inside = np.arange(k.shape[1]) < np.asarray(keys_values.lengths)[:, None, None, None]
        scores = np.where(inside, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    attended: np.ndarray = np.einsum("nhts,nshd->nthd", weights / weights.sum(-1, keepdims=True), v)
    return attended


def peak() -> int:
    """Return the peak memory so far in bytes: the device's if it reports it, else the process's."""
    told = jax.local_devices()[0].memory_stats() or {}
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(told.get("peak_bytes_in_use", resident))


if __name__ == "__main__":
    main()
