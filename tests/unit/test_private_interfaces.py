"""If JAX's private interfaces change, programs are compiled and not cached, and results stay right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from compilations import application, cache_of_jax, use_cache_of_jax
from jax._src import monitoring
from jax.experimental import serialize_executable
from jax.sharding import Mesh
from jax.stages import Compiled

from sdjax_engine.compiling.compiler import Compiler, working_memory
from sdjax_engine.compiling.executables import Executables
from sdjax_engine.memory.devices import BY_SEAT, open_mesh, setup_cpu, shard

ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    setup_cpu(2)
    return open_mesh()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture(autouse=True)
def no_cache() -> Iterator[None]:
    with cache_of_jax(enabled=False):
        yield


def painted(folder: Path, mesh: Mesh, said: list[str]) -> np.ndarray:
    """Return the result of the program as a new start of the engine compiles or loads it."""
    compiler = Compiler(mesh=mesh, report=said.append, executables=Executables(folder))
    program = compiler.compile("triple", lambda rows: 3 * rows, shard(ROWS, mesh), specs=(BY_SEAT,))
    assert working_memory(program) >= 0
    return np.asarray(program(shard(ROWS, mesh)))


@pytest.mark.parametrize("changed", ["name", "result", "format"])
def test_programs_that_cannot_be_serialized_are_compiled_on_each_device(
    changed: str, mesh: Mesh, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serialize = serialize_executable.serialize

    def in_another_format(program: Compiled) -> tuple[Any, ...]:
        executable, *trees = serialize(program)
        return executable.replace(b"exec", b"code"), *trees

    match changed:
        case "name":
            monkeypatch.delattr(serialize_executable, "serialize")
        case "result":
            monkeypatch.setattr(serialize_executable, "serialize", lambda program: (program,))
        case "format":
            monkeypatch.setattr(serialize_executable, "serialize", in_another_format)

    np.testing.assert_array_equal(painted(tmp_path, mesh, said), 3 * ROWS)
    assert "triple can neither be kept nor copied" in said[0]


def test_a_program_from_jaxs_cache_is_recognised_although_its_events_were_renamed(
    mesh: Mesh, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = monitoring.record_event
    monkeypatch.setattr(monitoring, "record_event", lambda event, **how: record(f"/renamed{event}", **how))
    with (
        cache_of_jax(enabled=True),
        application(jax_compilation_cache_dir=jax.config.values["jax_compilation_cache_dir"]),
    ):
        use_cache_of_jax(tmp_path / "of JAX")
        for start in range(2):
            np.testing.assert_array_equal(painted(tmp_path / str(start), mesh, said), 3 * ROWS)
            assert not (tmp_path / str(start)).exists()
