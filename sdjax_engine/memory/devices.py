"""The devices: one mesh over all of them, how arrays are placed on it, and its lines for the start-up."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy.typing as npt
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from sdjax_engine.errors import DevicesFailed, first_line

YNNPACK = "xla_cpu_experimental_ynn_fusion_type"
DOT_MERGER = "xla_gpu_dot_merger_threshold_mb"
TRITON_GEMM = "xla_gpu_enable_triton_gemm"
AXIS = "data"
REPLICATED = PartitionSpec()  # type: ignore[no-untyped-call]
BY_SEAT = PartitionSpec(AXIS)  # type: ignore[no-untyped-call]

ACCELERATOR_PACKAGES = ("jax_cuda13_plugin", "jax_cuda12_plugin", "jax_rocm7_plugin", "libtpu")

CONTAINER_LIMITS = (  # of the memory of a container, by the version of its cgroups: 2, 1
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

NO_MEMORY = ("RESOURCE_EXHAUSTED", "OUT_OF_MEMORY", "Out of memory", "out of memory", "bad_alloc")


def setup_cpu(count: int) -> bool:
    """Split the CPU into `count` devices, 0 meaning one for each core this process may use.

    Returns False, and changes nothing, where JAX has already been used in this process.
    """
    try:
        jax.config.update("jax_num_cpu_devices", count or usable_cores())  # type: ignore[no-untyped-call]
    except RuntimeError:  # JAX's own answer once its devices are fixed
        return False
    return True


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def host_memory() -> int:
    """Return how many bytes the host has, or its container may use where that is less."""
    pages: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [path.read_text().strip() for path in CONTAINER_LIMITS if path.exists()]
    return min([pages, *(int(limit) for limit in limits if limit != "max")])


def open_mesh() -> Mesh:
    """Return the mesh over all devices of this process, with one axis, `data`; raises DevicesFailed."""
    try:
        return mesh_over(jax.local_devices())
    except (RuntimeError, AssertionError) as error:  # JAX's answers to platforms that it cannot use
        wanted = getattr(jax.config, "jax_platforms", None) or "any"
        reason = first_line(error) if str(error) else "nothing installed knows such a platform."
        raise DevicesFailed(f"JAX finds no device of the platform {wanted}: {reason}") from error


def mesh_over(chosen: Sequence[jax.Device]) -> Mesh:
    """Return the mesh over these devices, with one axis, `data`."""
    return jax.make_mesh((len(chosen),), (AXIS,), axis_types=(AxisType.Explicit,), devices=chosen)


def device_count(mesh: Mesh) -> int:
    """Return how many devices the mesh has."""
    return int(mesh.devices.size)


def device_kind() -> str:
    """Return the kind of this process's devices, such as "cpu" or "NVIDIA H100 80GB HBM3"."""
    return str(jax.local_devices()[0].device_kind)


def is_cpu(mesh: Mesh) -> bool:
    """Whether the mesh's devices are slices of the CPU, which share its cores."""
    return bool(mesh.devices.flat[0].platform == "cpu")


def one_program_per_device(mesh: Mesh) -> bool:
    """Whether each device gets a program of its own, as slices of a CPU do (see `per_device.py`)."""
    return is_cpu(mesh) and device_count(mesh) > 1


def reads_kernels_by_output(mesh: Mesh) -> bool:
    """Whether convolutions read their kernels by output channel, as cuDNN does on a GPU."""
    return bool(mesh.devices.flat[0].platform == "gpu")


def counts_on_host(mesh: Mesh) -> bool:
    """Whether the host counts the turns of loops: a CPU's devices do it themselves, without a wait.

    A GPU's loop whose end the device computes makes the host wait in every turn, so that runs do not overlap.
    """
    return not is_cpu(mesh)


def replicate(array: npt.NDArray[Any], mesh: Mesh) -> jax.Array:
    """Copy `array` to every device."""
    copies: jax.Array = jax.device_put(array, NamedSharding(mesh, REPLICATED))
    return copies


def shard(rows: npt.NDArray[Any], mesh: Mesh) -> jax.Array:
    """Spread `rows` over the devices along its first axis, an equal share for each."""
    spread: jax.Array = jax.device_put(rows, NamedSharding(mesh, BY_SEAT))
    return spread


def spread_shape(shape: tuple[int, ...], dtype: npt.DTypeLike, mesh: Mesh) -> jax.ShapeDtypeStruct:
    """Return the shape of an array that is spread over the devices along its first axis."""
    sharding = NamedSharding(mesh, BY_SEAT)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)  # type: ignore[no-untyped-call]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the devices or the host ran out of memory."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, jax.errors.JaxRuntimeError) and any(word in str(error) for word in NO_MEMORY)


def network_options(mesh: Mesh) -> dict[str, str]:
    """Return XLA's options for a program that calls the denoiser repeatedly.

    On the CPU, YNNPACK is used for reductions (attention's softmax) only. On a GPU, products of the same
    input stay apart, and cuBLAS computes them. The options are empty elsewhere, and where XLA_FLAGS sets the
    same flag.
    """
    # YNNPACK's products and convolutions convert the weights' layout in every call: a step of an SD 1.x of
    # 77 million parameters takes 576 ms with them, 486 ms without. XLA makes one product of queries, keys and
    # values, and then copies each out of the result: 15 of the 73 GB that SDXL's evaluation moves outside
    # products at 1024² with four seats. XLA's own products (Triton) add a bias, but no residual: that takes
    # another 13 GB. cuBLAS adds both.
    options = {
        "cpu": {YNNPACK: "LIBRARY_FUSION_TYPE_REDUCE"},
        "gpu": {DOT_MERGER: "0", TRITON_GEMM: "False"},
    }.get(mesh.devices.flat[0].platform, {})
    return {name: value for name, value in options.items() if name not in os.environ.get("XLA_FLAGS", "")}


def report(mesh: Mesh | None = None) -> list[str]:
    """Return the lines for the start-up: number and kind of the devices, and the reason if it is the CPU."""
    mesh = mesh or open_mesh()
    count, first = device_count(mesh), mesh.devices.flat[0]
    devices = "1 device" if count == 1 else f"{count} devices"
    lines = [f"{devices}: {first.device_kind} ({first.platform}), JAX {jax.__version__}"]
    if is_cpu(mesh):
        lines.append(f"Painting on the CPU, not on an accelerator, because {why_cpu()}.")
    return lines


def why_cpu() -> str:
    """Return the reason why JAX uses the CPU, as a clause."""
    platforms: str | None = getattr(jax.config, "jax_platforms", None)
    if platforms:
        return f"JAX was told to use only: {platforms}"
    installed = [name for name in ACCELERATOR_PACKAGES if importlib.util.find_spec(name)]
    if not installed:
        return "JAX is installed without support for one (`requirements-cuda.lock` or `-tpu.lock` brings it)"
    return f"{', '.join(installed)} found no device that works"
