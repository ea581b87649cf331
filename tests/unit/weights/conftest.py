"""A tiny checkpoint, and a copy of it that a test may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from checkpoints import make_tiny_checkpoint


@pytest.fixture(scope="package")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("original"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "checkpoint"))
