"""Cached executables: found without tracing, never confused, ignored if incomplete."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from compilations import cache_of_jax, counted_compilations, use_cache_of_jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from sdjax_engine.compiling import executables
from sdjax_engine.compiling.compiler import (
    CACHE_HIT,
    Compiler,
    Program,
    compiled_with,
    jax_cache_events,
)
from sdjax_engine.compiling.executables import Executables
from sdjax_engine.memory.devices import AXIS, BY_SEAT, REPLICATED, network_options, open_mesh


class Held(NamedTuple):
    """A tree like those of the engine's programs."""

    x: jax.Array
    count: jax.Array


def double(weights: dict[str, jax.Array], held: Held) -> Held:
    return Held(x=2 * held.x + weights["b"] - weights["a"], count=held.count + 1)


@pytest.fixture(autouse=True)
def no_cache() -> Iterator[None]:
    """JAX's own cache is off, because executables from it are not kept."""
    with cache_of_jax(enabled=False):
        yield


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    devices = jax.devices()[:2]
    return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Explicit,), devices=devices)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def weights(mesh: Mesh) -> dict[str, jax.Array]:
    return {name: jax.device_put(np.float32(1), NamedSharding(mesh, REPLICATED)) for name in "ab"}


def held(mesh: Mesh, width: int = 3) -> Held:
    rows = np.arange(2 * width, dtype=np.float32).reshape(2, width), np.zeros(2, np.int32)
    return Held(*(jax.device_put(each, NamedSharding(mesh, BY_SEAT)) for each in rows))


Make = Callable[..., Program]


@pytest.fixture
def make(mesh: Mesh, tmp_path: Path, said: list[str], weights: dict[str, jax.Array]) -> Make:
    """Makes the program as a new start of the engine does."""

    def make(facts: object = None, given: Held | None = None, donate: tuple[int, ...] = (1,)) -> Program:
        compiler = Compiler(mesh=mesh, report=said.append, executables=Executables(tmp_path))
        specs: tuple[PartitionSpec, ...] = (REPLICATED, BY_SEAT)
        arguments = weights, given or held(mesh)
        how: dict[str, Any] = {"specs": specs, "donate": donate, "options": network_options(open_mesh())}
        return compiler.compile("double", double, *arguments, key=facts, **how)

    return make


def kept(folder: Path) -> list[Path]:
    """The executables named by what they depend on; each is also a file named by what was lowered."""
    named = sorted((folder / "programs").glob("double-*.program"))
    lowered = {file.stat().st_ino for file in (folder / "programs").glob("lowered-*.program")}
    assert {file.stat().st_ino for file in named} <= lowered
    return named


def lose(folder: Path) -> None:
    for file in (folder / "programs").iterdir():
        file.unlink()


def verbs(said: list[str]) -> list[str]:
    return [line.split()[0] for line in said]


def test_a_kept_executable_is_used_without_tracing_and_gives_the_same(
    make: Make, mesh: Mesh, said: list[str], weights: dict[str, jax.Array]
) -> None:
    compiled = make()(weights, held(mesh))
    with counted_compilations() as made:
        program = make()
        given = held(mesh)
        result = program(weights, given)
        again = program(weights, result)
    assert verbs(said) == ["compiled", "loaded"]
    assert made == []
    assert isinstance(result, Held)
    assert given.x.is_deleted()  # it was donated, as in the compiled program
    np.testing.assert_array_equal(np.asarray(again.count), np.full(2, 2))
    np.testing.assert_array_equal(np.asarray(compiled.x), np.asarray(held(mesh).x) * 2)


@pytest.mark.parametrize("changed", ["shapes", "donation", "setting"])
def test_what_another_program_left_is_not_taken(
    changed: str, make: Make, mesh: Mesh, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make()
    match changed:
        case "shapes":
            make(given=held(mesh, width=1))
        case "donation":
            make(donate=())
        case "setting":
            monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
            make()
    assert verbs(said) == ["compiled", "compiled"]


@pytest.mark.parametrize("changed", ["facts", "source"])
def test_what_other_code_lowers_to_the_same_is_not_compiled_again_and_then_found_without_tracing(
    changed: str, make: Make, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make()
    monkeypatch.setattr(executables, "source_digest", lambda: "another" if changed == "source" else "same")
    facts = {"chunks": 2} if changed == "facts" else None
    with counted_compilations() as made:
        make(facts=facts)
    assert made
    assert not [what for what in made if what.startswith("backend_compile")]
    with counted_compilations() as made:
        make(facts=facts)
    assert made == []
    assert verbs(said) == ["compiled", "loaded", "loaded"]


def test_where_files_cannot_have_two_names_they_are_copied(
    make: Make, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_paths: Path) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    make()
    assert len(list((tmp_path / "programs").glob("*.program"))) == 2
    make()
    assert verbs(said) == ["compiled", "loaded"]


@pytest.mark.parametrize("differs", ["processor", "source_digest"])
def test_machines_and_versions_that_share_a_folder_keep_each_others_executables(
    differs: str, make: Make, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("one", "another", "one", "another"):
        monkeypatch.setattr(executables, differs, lambda each=each: each)
        make()
    compilations = 1 if differs == "source_digest" else 2  # other source lowers to the same program
    assert verbs(said) == ["compiled"] * compilations + ["loaded"] * (4 - compilations)


@pytest.mark.parametrize("package", ["jax", "jaxlib"])
def test_an_upgrade_of_a_library_that_compiles_never_loads_what_the_old_version_compiled(
    package: str, make: Make, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make()
    installed = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "99.0" if name == package else installed(name))
    make()
    assert verbs(said) == ["compiled", "compiled"]


def test_executables_in_a_folder_that_may_only_be_read_are_loaded(
    make: Make, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make()

    def refuse(*_arguments: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    make()
    assert verbs(said) == ["compiled", "loaded"]


def test_what_nobody_has_wanted_for_long_is_removed(make: Make, mesh: Mesh, tmp_path: Path) -> None:
    make(facts="old")
    (old,) = kept(tmp_path)
    os.utime(old, (0, 0))
    make(given=held(mesh, width=1))
    assert len(kept(tmp_path)) == 1
    assert old not in kept(tmp_path)


@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty", "one bit", "writable by others"])
def test_a_file_that_is_not_to_be_believed_is_written_anew(
    damage: str, make: Make, tmp_path: Path, said: list[str]
) -> None:
    make()
    (file,) = kept(tmp_path)
    content = file.read_bytes()
    match damage:
        case "truncated":
            file.write_bytes(content[:-1])
        case "foreign":
            file.write_bytes(b"a file of somebody else's\n")
        case "empty":
            file.write_bytes(b"")
        case "one bit":
            file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        case "writable by others":
            file.chmod(0o666)
    make()
    assert verbs(said) == ["compiled", "compiled"]
    make()
    assert verbs(said)[2:] == ["loaded"]
    assert stat.S_IMODE(kept(tmp_path)[0].stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_only_means_that_nothing_is_kept(
    mesh: Mesh, tmp_path: Path, said: list[str], weights: dict[str, jax.Array]
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder would be")
    compiler = Compiler(mesh=mesh, report=said.append, executables=Executables(blocked))
    program = compiler.compile("double", double, weights, held(mesh), specs=(REPLICATED, BY_SEAT))
    np.testing.assert_array_equal(np.asarray(program(weights, held(mesh)).count), [1, 1])
    assert said[0].startswith("double cannot be kept for the next start: ")


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = jax.config.values["jax_compilation_cache_dir"]
    with cache_of_jax(enabled=True):
        use_cache_of_jax(tmp_path_factory.mktemp("cache"))
        yield
        jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.usefixtures("own_cache")
def test_what_the_cache_of_jax_gives_is_neither_kept_nor_loaded_on_another_device(
    make: Make, mesh: Mesh, tmp_path: Path, said: list[str], weights: dict[str, jax.Array]
) -> None:
    make()
    for hits_wanted, kept_wanted in (1, 1), (2, 0):
        lose(tmp_path)
        with jax_cache_events() as answers:
            program = make()
        assert (answers.count(CACHE_HIT), len(kept(tmp_path))) == (hits_wanted, kept_wanted)
        np.testing.assert_array_equal(np.asarray(program(weights, held(mesh)).count), [1, 1])
    assert verbs(said) == ["compiled"] * 3


def test_an_option_that_this_jax_does_not_know_is_left_out() -> None:
    lowered = jax.jit(lambda x: x + 1).lower(np.float32(1))

    assert compiled_with({"xla_of_another_day": "true"}, lowered)(np.float32(1)) == 2


@pytest.mark.parametrize(("group", "verb"), [(True, "loaded"), (False, "compiled")])
def test_what_its_group_can_write_is_believed_where_the_group_is_trusted(
    *, group: bool, verb: str, mesh: Mesh, tmp_path: Path, said: list[str], weights: dict[str, jax.Array]
) -> None:
    for _start in range(2):
        compiler = Compiler(mesh=mesh, report=said.append, executables=Executables(tmp_path, group=group))
        compiler.compile("double", double, weights, held(mesh), specs=(REPLICATED, BY_SEAT))
        for file in (tmp_path / "programs").iterdir():
            file.chmod(0o660)  # as Kubernetes does to a volume with an fsGroup whenever it mounts it
        (tmp_path / "programs").chmod(0o2770)
    assert verbs(said) == ["compiled", verb]
