"""The check of the pictures that `make release` and `try-container` paint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sdjax_engine.demo.drawing import Sprites, draw
from sdjax_engine.demo.scenes import Scene, Thing

ROOT = Path(__file__).parents[2]
SCRIPTS = ("make-release", "try-container")
CIRCLE = Thing(name="circle", colour="red", size="large")


@pytest.mark.parametrize(
    ("scene", "status"),
    [
        (Scene(things=(CIRCLE,)), 0),
        (Scene(things=(Thing(name="star", colour="blue", size="large"),)), 1),
        (Scene(things=(CIRCLE,), ground="black"), 1),
    ],
    ids=["what was asked for", "another thing", "another background"],
)
def test_a_picture_that_does_not_show_what_was_asked_for_is_refused(
    scene: Scene, status: int, tmp_path: Path
) -> None:
    Image.fromarray(np.asarray(draw(scene, Sprites()))).save(tmp_path / "picture.png")
    command = [sys.executable, ROOT / "deploy" / "check_picture.py", tmp_path / "picture.png"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_shell_and_may_be_run(script: str) -> None:
    path = ROOT / "deploy" / script
    subprocess.run(["bash", "-n", path], check=True)
    assert path.stat().st_mode & 0o111 == 0o111
