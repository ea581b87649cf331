"""Shared set-up of the store's tests."""

from pathlib import Path

import pytest
from stores import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where a queue's database may be made."""
    return tmp_path / "var" / "queue.sqlite3"
