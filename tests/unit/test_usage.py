"""The most used lanes come first at the next start, and an invalid record is ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdjax_engine.startup.registry import FILE, HALF_LIFE, SECONDS_BETWEEN_WRITES, Usage

NAMES = ["a", "b", "c", "d"]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def test_the_most_used_lanes_come_first(tmp_path: Path) -> None:
    usage = Usage(tmp_path)
    usage.count("c", "b")
    usage.count("c")
    assert usage.in_order(NAMES) == ["c", "b", "a", "d"]
    usage.write()
    assert Usage(tmp_path).in_order(NAMES) == ["c", "b", "a", "d"]


def test_older_use_counts_less(tmp_path: Path) -> None:
    clock = Clock()
    before = Usage(tmp_path, clock=clock)
    before.count(*"aaaa")
    before.write()
    clock.now += 3 * HALF_LIFE
    later = Usage(tmp_path, clock=clock)
    later.count("b")
    later.write()
    assert Usage(tmp_path, clock=clock).in_order(NAMES)[:2] == ["b", "a"]


def test_usage_is_written_at_intervals(tmp_path: Path) -> None:
    clock = Clock()
    usage = Usage(tmp_path, clock=clock)
    usage.count("b")
    assert not (tmp_path / FILE).exists()
    clock.now += SECONDS_BETWEEN_WRITES
    usage.count("b")
    assert Usage(tmp_path, clock=clock).in_order(NAMES)[0] == "b"


@pytest.mark.parametrize(
    "content", ["", "[]", '{"at": 0}', '{"at": "x", "counts": {}}', '{"at":1,"counts":[1]}']
)
def test_an_invalid_record_is_ignored(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(content)
    usage = Usage(tmp_path)
    assert usage.in_order(NAMES) == NAMES
    usage.count("d")
    usage.write()
    assert Usage(tmp_path).in_order(NAMES)[0] == "d"


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "file" / "folder"):
        (tmp_path / "file").touch()
        usage = Usage(folder)
        usage.count("b")
        usage.write()
        assert usage.in_order(NAMES)[0] == "b"
