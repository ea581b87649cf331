"""What people asked for lately comes first at the next start, and a broken record harms nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdjax_engine.startup.usage import FILE, HALF_LIFE, SECONDS_BETWEEN_WRITES, Usage

NAMES = ["a", "b", "c", "d"]


class Clock:
    """A time that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def test_what_was_asked_for_most_comes_first_and_the_rest_as_it_came(tmp_path: Path) -> None:
    usage = Usage(tmp_path)
    usage.count("c", "b")
    usage.count("c")
    assert usage.in_order(NAMES) == ["c", "b", "a", "d"]
    usage.write()
    assert Usage(tmp_path).in_order(NAMES) == ["c", "b", "a", "d"]


def test_what_is_long_ago_counts_less(tmp_path: Path) -> None:
    clock = Clock()
    before = Usage(tmp_path, clock=clock)
    before.count(*"aaaa")
    before.write()
    clock.now += 3 * HALF_LIFE
    later = Usage(tmp_path, clock=clock)
    later.count("b")
    later.write()
    assert Usage(tmp_path, clock=clock).in_order(NAMES)[:2] == ["b", "a"]


def test_it_is_written_now_and_then_though_nobody_says_so(tmp_path: Path) -> None:
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
def test_a_record_that_cannot_be_read_is_as_good_as_none(content: str, tmp_path: Path) -> None:
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
