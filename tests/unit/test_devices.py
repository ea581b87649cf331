"""The report of the devices, the placing of arrays on them, and configurations that an engine refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import jax
import numpy as np
import pytest
from engines import TINY
from jax.sharding import Mesh

import sdjax_engine
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import most_memory, usable_memory
from sdjax_engine.request import Lane

SPEC = ModelSpec(offer=TINY, source="demo")


def test_the_report_counts_the_devices_and_says_why_it_is_the_cpu() -> None:
    count, reason = devices.report()
    assert count.startswith(f"{jax.device_count()} device")
    assert reason.startswith("Painting on the CPU, not on an accelerator, because ")


def test_rows_are_spread_over_the_devices_and_parameters_copied_to_each() -> None:
    mesh = devices.open_mesh()
    count = devices.device_count(mesh)
    rows = np.arange(2 * count, dtype=np.float32)
    assert {each.data.shape for each in devices.shard(rows, mesh).addressable_shards} == {(2,)}
    copies = devices.replicate(rows, mesh).addressable_shards
    assert len(copies) == count
    for copy in copies:
        np.testing.assert_array_equal(np.asarray(copy.data), rows)


def test_the_networks_are_compiled_as_xla_flags_say_where_they_speak_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert devices.network_options(devices.open_mesh()) == {devices.YNNPACK: "LIBRARY_FUSION_TYPE_REDUCE"}
    monkeypatch.setenv("XLA_FLAGS", f"--{devices.YNNPACK}=dot")
    assert devices.network_options(devices.open_mesh()) == {}


def test_on_a_gpu_products_stay_apart_and_take_residuals_along() -> None:
    """XLA would merge products of one input and copy each result out; its Triton products add no residual."""
    platform = SimpleNamespace(platform="gpu")
    mesh = cast("Mesh", SimpleNamespace(devices=np.array([platform])))
    assert devices.network_options(mesh) == {devices.DOT_MERGER: "0", devices.TRITON_GEMM: "False"}
    assert devices.counts_on_host(mesh)
    assert not devices.counts_on_host(devices.open_mesh())


@pytest.mark.parametrize(
    ("reported", "configured", "usable", "most"),
    [(None, 0, None, None), (None, 50, 50, None), (100, 0, 94, 94), (100, 50, 50, 94), (100, 99, 99, 94)],
)
def test_the_configured_memory_is_believed_beside_what_the_devices_report(
    reported: int | None, configured: int, usable: int | None, most: int | None
) -> None:
    stats = None if reported is None else {"bytes_limit": reported}
    device = SimpleNamespace(memory_stats=lambda: stats, platform="gpu")
    mesh = cast("Mesh", SimpleNamespace(devices=np.array([device])))
    assert usable_memory(mesh, configured) == usable
    assert most_memory(mesh) == most


@pytest.mark.parametrize(
    ("limit", "usable"), [(None, None), ("max", None), ("9223372036854771712", None), ("4096000", 4_096_000)]
)
def test_the_cpus_devices_share_what_the_container_may_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str | None, usable: int | None
) -> None:
    monkeypatch.setattr(devices, "CONTAINER_LIMITS", [tmp_path / "of-another-version", tmp_path / "limit"])
    if limit is not None:
        (tmp_path / "limit").write_text(f"{limit}\n")
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    mesh = devices.open_mesh()
    assert most_memory(mesh) == (usable or host) // devices.device_count(mesh)


@pytest.mark.parametrize(("asked", "expected"), [(3, 3), (0, devices.usable_cores())])
def test_the_cpu_is_split_into_as_many_devices_as_asked_for(asked: int, expected: int) -> None:
    code = (
        "import jax; from sdjax_engine.memory import devices\n"
        f"assert devices.setup_cpu({asked}); print(devices.device_count(devices.open_mesh()))\n"
        "assert not devices.setup_cpu(5), 'too late, and said so'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == expected


@pytest.mark.parametrize(
    "values",
    [
        {"models": ()},
        {"models": (SPEC, SPEC)},
        {"models": (SPEC,), "seats_per_device": -1},
        {"models": (SPEC,), "cpu_devices": -1},
        {"models": (SPEC,), "lanes": ()},
        {"models": (SPEC,), "lanes": (Lane(model="other", height=128, width=128, guided=True),)},
    ],
)
def test_an_impossible_configuration_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not"):
        EngineConfig(**values)


@pytest.mark.parametrize("name", sdjax_engine.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(sdjax_engine, name).__name__ == name
