"""Digests of files: over every byte, and remembered only for an unchanged file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights import cache
from sdjax_engine.weights.cache import Digests

LONG = 3 * cache.BLOCK + 5


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "weights"
    file.write_bytes(bytes(LONG))
    return file


def digest(file: Path, *, seconds_later: float = 60.0) -> str:
    """Return the digest as a new process finds it, so many seconds after the file's last change."""
    folder, now = file.with_name("kept"), file.stat().st_ctime + seconds_later
    return Digests(folder=folder, clock=lambda: now).of(file)


def refuse_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> bytes:
        raise AssertionError("the file was read again")

    monkeypatch.setattr(cache, "digest_part", read)


@pytest.mark.parametrize("place", [0, cache.BLOCK, LONG // 2, LONG - 1])
def test_one_changed_byte_anywhere_changes_the_digest(
    place: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "PART", 2 * cache.BLOCK)
    before, facts = digest(file), file.stat()
    content = bytearray(LONG)
    content[place] = 1
    with file.open("r+b") as opened:
        opened.write(content)
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    assert digest(file) != before


def test_unchanged_file_is_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(file)
    refuse_reading(monkeypatch)

    assert digest(file) == before


def test_file_changed_shortly_before_is_read_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest(file, seconds_later=1)
    refuse_reading(monkeypatch)

    with pytest.raises(AssertionError):
        digest(file)


@pytest.mark.parametrize("damage", ["", "[]", "{}", "[" * 100_000, '{"facts": [], "digest": "0"}'])
def test_damaged_digest_file_is_rewritten(damage: str, file: Path) -> None:
    before = digest(file)
    (note,) = file.with_name("kept").iterdir()
    content = note.read_text()
    note.write_text(damage)

    assert digest(file) == before
    assert note.read_text() == content


def test_file_that_is_gone_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpoint, match="gone cannot be read"):
        Digests(folder=None).of(tmp_path / "gone")
