"""What the tests of stored things share."""

import resource
from collections.abc import Iterator
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


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may grow over 8 KiB: what a full disk does to a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
