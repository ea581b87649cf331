"""The engine's benchmark: its tables, and its sides, which are processes that may die at any time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import engine
from engine_peers import PeerTask

TASK = PeerTask(
    folder="",
    noise="",
    save="",
    side=64,
    steps=2,
    guidance=5.0,
    dtype="float32",
    sampler="ddim",
    batch=1,
    platform="",
)


def side(tmp_path: Path, then: str) -> engine.Side:
    """A side whose process paints its first picture, and then does something else."""
    peer = tmp_path / "peer"
    peer.write_text(f"""#!/bin/sh\nread task\necho '{{"seconds": 1.5, "count": 4}}'\n{then}\n""")
    peer.chmod(0o755)
    return engine.Side("torch", TASK, on="cpu", torch_python=str(peer))


def test_a_side_paints_until_it_is_closed(tmp_path: Path) -> None:
    own = side(tmp_path, "while read line; do echo '[0.25, 0.5]'; done")
    assert (own.first, own.count, own.measure(), own.measure()) == (1.5, 4, (0.25, 0.5), (0.25, 0.5))
    own.close()


def test_a_side_that_dies_says_its_status_and_can_be_closed(tmp_path: Path) -> None:
    own = side(tmp_path, "exit 3")
    own._process.wait()
    with pytest.raises(engine.SideFailed, match="ended with status 3"):
        own.measure()
    own.close()


def test_a_side_that_answers_no_more_but_lives_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "GRACE", 0.1)
    own = side(tmp_path, "exec 1>&-\nexec sleep 600")
    with pytest.raises(engine.SideFailed, match="ended with status -9"):
        own.measure()
    own.close()


def test_rows_in_miniature_are_those_of_the_gpu_on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[str] = []
    monkeypatch.setattr(engine, "compare", lambda row, *_: rows.append(row.name))
    monkeypatch.setattr(sys, "argv", ["engine.py", "--tiny"])
    engine.main()
    assert rows == [f"{row.name}, in miniature" for row in engine.ON_GPU]
    monkeypatch.setattr(sys, "argv", ["engine.py", "--tiny", "--on", "cpu"])
    with pytest.raises(SystemExit):
        engine.main()
