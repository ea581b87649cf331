"""The watermark's networks, compiled for accelerators that are not there: kernels, traffic, and a bound.

    python benchmarks/compiled_watermark.py [--on h200] [--pictures 1 8]

A front computes them on its processor; this says what a GPU could gain at most. They have the sizes of the
published files (TrustMark, variant P), so no weights are read. `make compiled` installs the compiler. XLA
gives no cost analysis for a GPU that is not there: operations and bytes are counted in the compiled program's
text. `bound` is calculated as in `compiled.py`: each kernel counts with the longer of two times from the data
sheet. Float32 products count with TensorFloat-32's rate, the fastest that a compiler may choose for them. A
device's cache may answer a part of the traffic: no run is faster than `products`, their operations alone.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from compiled_hlo import Program
from compiled_targets import TARGETS, Target, described_mesh, replicated
from conditions import print_conditions
from jax.sharding import Mesh

from sdjax_engine.models.trustmark import PIXELS
from sdjax_engine.watermark import find, put
from sdjax_engine.watermark_tasks import BITS, SEEN
from sdjax_engine.weights.checkpoint import Component
from sdjax_engine.weights.networks import Part

PARTS = {
    "put": Part(
        model="TrustMarkEncoder",
        config={"bits": BITS, "width": 32, "down": 4, "middle": 1},
        stored={},
        origin="encoder_P",
    ),
    "find": Part(
        model="TrustMarkDecoder",
        config={"bits": BITS, "width": 64, "blocks": [3, 4, 6, 3]},
        stored={},
        origin="decoder_P",
    ),
}


def compiled(name: str, mesh: Mesh, pictures: int) -> Any:
    """Compile the program that puts a watermark or finds one, for so many pictures in a call."""
    planned, placed = PARTS[name], replicated(mesh)
    parameters: Any = {
        each.key: jax.ShapeDtypeStruct(each.shape, planned.dtype, sharding=placed)
        for each in sorted(planned.wanted.values(), key=lambda each: each.key)
    }
    network = Component(
        parameters=parameters,
        shapes={},
        blueprint=planned.blueprint,
        in_float32=planned.in_float32,
        config=planned.config,
        dtype=planned.dtype,
    )

    def given(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((pictures, *shape), np.uint8, sharding=placed)

    if name == "put":
        arguments = parameters, given(PIXELS, PIXELS, 3), given(BITS)
        return jax.jit(partial(put, network)).lower(*arguments).compile()
    return jax.jit(partial(find, network)).lower(parameters, given(SEEN, SEEN, 3)).compile()


def print_bound(name: str, target: Target, pictures: int) -> None:
    """Compile one of the programs for a target, and print what it does and its bound."""
    profile = Program(compiled(name, described_mesh(target), pictures).as_text()).profile(
        flops=target.float32, bandwidth=target.bandwidth
    )
    products, bound = (1e3 * seconds for seconds in (profile.flop / target.float32, profile.seconds))
    print(
        f"{target.name}, {name}, {pictures} in a call: {profile.kernels} kernels, "
        f"{profile.flop / 1e9:.2f} GFLOP, {(profile.products + profile.others) / 1e6:.0f} MB, "
        f"bound {bound:.3f} ms (products {products:.3f}), {bound / pictures:.3f} ms a picture"
    )


def main() -> None:
    """Print the bounds of each target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    known = [name for name, target in TARGETS.items() if target.float32]
    parser.add_argument("--on", nargs="+", choices=known, default=["h200"])
    parser.add_argument("--pictures", type=int, nargs="+", default=[1, 8])
    options = parser.parse_args()
    print_conditions("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin")
    for target in (TARGETS[name] for name in options.on):
        print(f"{target.name}: {target.float32 / 1e12:.1f} TFLOP/s, {target.bandwidth / 1e12:.1f} TB/s")
        for name in PARTS:
            for pictures in options.pictures:
                print_bound(name, target, pictures)


if __name__ == "__main__":
    main()
