"""The devices that `compiled.py` compiles for; the vendors' compilers need only their description."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from sdjax_engine.errors import first_line
from sdjax_engine.memory import devices
from sdjax_engine.models.attention_choice import Backend, Kernel
from sdjax_engine.models.attention_kernels import KERNELS, Trial, tried

GIB = 2**30
GPU_TEXT = """
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {shared}
  threads_per_core_limit: {threads}
  core_count: {cores}
  fpus_per_core: {fpus}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth}
  l2_cache_size: {cache}
  clock_rate_ghz: {clock}
  device_memory_size: {memory}
  shared_memory_per_block_optin: {optin}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "NVIDIA {name}"
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A kind of device by its data sheet: bytes of memory, bfloat16 operations and bytes a second.

    `float32` is the rate of float32 products, which a GPU may round to TensorFloat-32; 0 if it is unknown.
    A chip has `devices_of_a_chip`. A TPU's `topology` has several devices. `facts` describe a GPU to XLA,
    `capability` is its CUDA compute capability.
    """

    name: str
    memory: int
    flops: float
    bandwidth: float
    float32: float = 0.0
    devices_of_a_chip: int = 1
    topology: str = ""
    capability: tuple[int, int] = (0, 0)
    facts: Mapping[str, Any] | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether NVIDIA's compiler compiles for it."""
        return self.facts is not None

    @property
    def given_by_jax(self) -> float:
        """The share of the memory that JAX takes by default."""
        return 0.75 if self.is_gpu else 1.0

    @property
    def description(self) -> str:
        """The text that describes a GPU to XLA."""
        major, minor = self.capability
        facts = {**(self.facts or {}), "memory": self.memory, "bandwidth": int(self.bandwidth)}
        return GPU_TEXT.format(name=self.name.upper(), major=major, minor=minor, **facts)


# Of a TPU v2 or v3 every core is a device with half of the chip's memory.
TARGETS = {
    target.name: target
    for target in (
        Target(
            name="v2",
            topology="v2:2x2",
            devices_of_a_chip=2,
            memory=8 * GIB,
            flops=23e12,
            bandwidth=350e9,
        ),
        Target(
            name="v3",
            topology="v3:2x2",
            devices_of_a_chip=2,
            memory=16 * GIB,
            flops=61.5e12,
            bandwidth=450e9,
        ),
        Target(name="v5e", topology="v5e:2x2", memory=16 * GIB, flops=197e12, bandwidth=819e9),
        Target(name="v6e", topology="v6e:2x2", memory=32 * GIB, flops=918e12, bandwidth=1640e9),
        Target(
            name="h200",
            memory=141 * 10**9,
            flops=989e12,
            float32=494.5e12,
            bandwidth=4.8e12,
            capability=(9, 0),
            facts={
                "shared": 233472,
                "threads": 2048,
                "cores": 132,
                "fpus": 128,
                "cache": 52428800,
                "clock": 1.98,
                "optin": 232448,
            },
        ),
        Target(
            name="a100",
            memory=80 * 10**9,
            flops=312e12,
            float32=156e12,
            bandwidth=2.039e12,
            capability=(8, 0),
            facts={
                "shared": 167936,
                "threads": 2048,
                "cores": 108,
                "fpus": 64,
                "cache": 41943040,
                "clock": 1.41,
                "optin": 166912,
            },
        ),
        Target(
            name="l4",
            memory=24 * 10**9,
            flops=121e12,
            float32=60e12,
            bandwidth=300e9,
            capability=(8, 9),
            facts={
                "shared": 102400,
                "threads": 1536,
                "cores": 58,
                "fpus": 128,
                "cache": 50331648,
                "clock": 2.04,
                "optin": 101376,
            },
        ),
    )
}


def described_mesh(target: Target) -> Mesh:
    """Return the mesh over a target's devices; raises RuntimeError where its compiler is not installed."""
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault(
        "ALLOW_MULTIPLE_LIBTPU_LOAD", "1"
    )  # no device is held, so that others may compile too
    if target.is_gpu:
        discover_cuda(target)
        found = topologies.get_topology_desc(
            platform="cuda", topology_name="", target_config=target.description, topology="1x1x1"
        )
    else:
        found = topologies.get_topology_desc(platform="tpu", topology_name=target.topology)
    return devices.mesh_over(found.devices)


@cache
def load_cuda_plugin() -> None:
    """Load the CUDA plugin, once in a process."""
    from jax._src import xla_bridge  # noqa: PLC0415 - there is no public way

    try:
        xla_bridge.discover_pjrt_plugins()
    except Exception as error:
        if "ALREADY_EXISTS" not in str(error):
            raise


def discover_cuda(target: Target) -> None:
    """Load the CUDA plugin without a device; JAX's cuDNN attention then finds the target's capability."""
    from jax._src.cudnn import fused_attention_stablehlo as fused  # noqa: PLC0415

    load_cuda_plugin()
    current: Any = fused
    current.check_compute_capability = lambda least: (
        target.capability >= tuple(int(part) for part in least.split("."))
    )
    current.is_cuda_compute_capability_equal = lambda other: (
        target.capability == tuple(int(part) for part in other.split("."))
    )


def backend_of(target: Target, mesh: Mesh) -> Backend:
    """Return which fused kernels the target's compiler accepts; a start also runs each of them."""
    device = SingleDeviceSharding(mesh.devices.flat[0])

    def refusal_of(kernel: Kernel, given: Trial) -> str | None:
        *arrays, causal = given
        shapes = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device), arrays
        )
        try:
            jax.jit(partial(KERNELS[kernel], causal=causal)).lower(*shapes).compile()
        except Exception as refusal:  # noqa: BLE001 - whatever a compiler dies of
            return first_line(refusal)
        return None

    return tried("gpu" if target.is_gpu else "tpu", refusal_of)


def replicated(mesh: Mesh) -> NamedSharding:
    """Return how parameters are placed: whole on every device."""
    return NamedSharding(mesh, devices.REPLICATED)
