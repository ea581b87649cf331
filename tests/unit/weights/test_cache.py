"""The cache returns converted parameters unchanged, and never in place of a changed source."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from sdjax_engine.weights import Checkpoint, load_checkpoint, networks, reading
from sdjax_engine.weights import cache as caches

VAE_FILE = "vae/diffusion_pytorch_model.safetensors"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def kept(cache: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in (cache / "weights").glob("*.safetensors")}


def same(one: Checkpoint, other: Checkpoint) -> bool:
    trees = [{name: part.parameters for name, part in each.components.items()} for each in (one, other)]
    pairs = zip(*(jax.tree.leaves(tree) for tree in trees), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


def change_in_place(file: Path) -> None:
    """Change one number of the last tensor without changing the file's size, inode and time."""
    facts = file.stat()
    with file.open("r+b") as opened:
        opened.seek(facts.st_size - 9 * 4)
        (number,) = np.frombuffer(opened.read(4), np.float32)
        opened.seek(facts.st_size - 9 * 4)
        opened.write(np.float32(number + 1).tobytes())
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_second_load_reads_the_same_parameters_and_no_source(
    dtype: str, original: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_checkpoint(str(original), dtype=dtype, cache_dir=cache)
    files = kept(cache)

    def no_conversion(*_: object, **__: object) -> None:
        raise AssertionError("a tensor was converted again")

    def no_network(*_: object) -> None:
        raise AssertionError("a network was built")

    monkeypatch.setattr(reading, "convert", no_conversion)
    monkeypatch.setattr(networks, "layout", no_network)
    second = load_checkpoint(str(original), dtype=dtype, cache_dir=cache)

    assert len(files) == 3
    assert kept(cache) == files
    assert same(first, second)


def test_changed_source_is_read_again_and_its_old_cache_is_removed(folder: Path, cache: Path) -> None:
    load_checkpoint(str(folder), cache_dir=cache)
    before = kept(cache)
    halves = {name: 0.5 * tensor for name, tensor in load_file(folder / VAE_FILE).items()}
    save_file(halves, folder / VAE_FILE)

    changed = load_checkpoint(str(folder), cache_dir=cache)

    assert same(changed, load_checkpoint(str(folder)))
    assert len(kept(cache)) == len(before) == 3
    assert len(kept(cache).keys() & before.keys()) == 2


def test_weights_changed_in_place_under_the_same_size_and_time_are_noticed(folder: Path, cache: Path) -> None:
    before = load_checkpoint(str(folder), cache_dir=cache)
    change_in_place(folder / VAE_FILE)

    after = load_checkpoint(str(folder), cache_dir=cache)

    assert not same(after, before)
    assert same(after, load_checkpoint(str(folder)))


def test_weights_that_change_while_they_are_read_are_not_kept(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = reading.convert

    def change_and_convert(*told: Any, **options: Any) -> Any:
        change_in_place(folder / VAE_FILE)
        return convert(*told, **options)

    monkeypatch.setattr(reading, "convert", change_and_convert)
    load_checkpoint(str(folder), cache_dir=cache)
    monkeypatch.undo()

    assert len(kept(cache)) == 2  # the text encoder's and the UNet's
    assert same(load_checkpoint(str(folder), cache_dir=cache), load_checkpoint(str(folder)))


@pytest.mark.parametrize("damage", ["truncated", "other bytes", "another network's"])
def test_damaged_file_is_rewritten(damage: str, original: Path, cache: Path) -> None:
    expected = load_checkpoint(str(original), cache_dir=cache)
    files = sorted((cache / "weights").glob("*.safetensors"), key=lambda file: file.stat().st_size)
    victim, content = files[0], files[0].read_bytes()
    if damage == "truncated":
        victim.write_bytes(content[:-1])
    elif damage == "other bytes":
        victim.write_bytes(b"not a file of tensors")
    else:
        shutil.copy(files[1], victim)

    loaded = load_checkpoint(str(original), cache_dir=cache)

    assert same(loaded, expected)
    assert victim.read_bytes() == content


def test_changed_code_checks_the_cache_against_the_network_again(
    original: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load_checkpoint(str(original), cache_dir=cache)
    before = kept(cache)
    built: list[str] = []
    layout = networks.layout
    monkeypatch.setattr(networks, "layout", lambda model, *how: built.append(model) or layout(model, *how))
    monkeypatch.setattr(caches, "source_digest", lambda: "other code")

    for _ in range(2):
        assert same(load_checkpoint(str(original), cache_dir=cache), expected)

    assert set(built) == {"AutoencoderKL", "CLIPTextModel", "UNet2DConditionModel"}
    assert kept(cache) == before


def test_dtypes_and_sources_are_kept_beside_each_other(original: Path, folder: Path, cache: Path) -> None:
    load_checkpoint(str(original), dtype="float32", cache_dir=cache)
    load_checkpoint(str(original), dtype="bfloat16", cache_dir=cache)
    load_checkpoint(str(folder), cache_dir=cache)

    assert len(kept(cache)) == 9


def test_read_only_folder_only_disables_the_cache(original: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder would be")

    assert same(load_checkpoint(str(original), cache_dir=blocked), load_checkpoint(str(original)))


def test_old_partial_files_are_removed(original: Path, cache: Path) -> None:
    load_checkpoint(str(original), cache_dir=cache)
    whole = min((cache / "weights").glob("*.safetensors"), key=lambda file: file.stat().st_size)
    old, young = (whole.with_name(f"{whole.stem}.{number}.part") for number in (1, 2))
    old.touch()
    os.utime(old, (0, 0))
    young.touch()
    whole.unlink()

    load_checkpoint(str(original), cache_dir=cache)

    assert whole.exists()
    assert young.exists()
    assert not old.exists()
