"""A reader can follow one prompt through the engine: it passes few files, and seldom turns back to one.

`python benchmarks/walk.py engine --list` prints every function that a prompt passes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import pytest
from engines import PLAIN, tiny_config

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from walk import submit_walk

from sdjax_engine.engine import Engine
from sdjax_engine.memory import devices


def test_one_submit_passes_25_files_and_turns_back_30_times_at_most(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_device = devices.mesh_over(jax.local_devices()[:1])
    monkeypatch.setattr(devices, "open_mesh", lambda: one_device)
    config = tiny_config(checkpoint, cache_dir=None, cpu_devices=1)
    walk = submit_walk(lambda: Engine.open(config, report=lambda _line: None), PLAIN)
    figures = walk.figures()
    assert figures["functions"] > 100  # else it was not followed
    assert len(set(walk.files)) <= 25
    assert figures["turns back"] <= 30
