"""A tiny checkpoint, and a copy of it that a test may change."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpoints import make_tiny_checkpoint
from described_networks import networks_described_once


@pytest.fixture(autouse=True, scope="package")
def _networks_once() -> Iterator[None]:
    with networks_described_once():
        yield


@pytest.fixture(scope="package")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("original"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "checkpoint"))
