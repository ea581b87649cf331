"""Which tests share a process in a parallel run: the tests of a file, and of some folders.

The tests of some folders share an engine or a demo, which each further process would have to make again.
Those of whole bots wait in real time, for leases and timers: one process has them all, and the others use the
cores meanwhile. Tests that take long begin first, so that no process is left alone with one of them at
the end.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.scheduler.protocol import Scheduling

TOGETHER = ("tests/integration/engine", "tests/integration/whole", "tests/demo")
"""Each of these folders runs in one process."""

FIRST = ("tests/integration/engine", "tests/integration/whole", "tests/demo", "tests/integration/fleet")
"""The longest first."""


def folder_of(nodeid: str) -> str:
    """Return the folder of a test's file."""
    return nodeid.partition("::")[0].rpartition("/")[0]


def place_of(nodeid: str) -> int:
    """Return the place of a test's folder in the order of a parallel run."""
    folder = folder_of(nodeid)
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


class ByFolder(LoadFileScheduling):
    """Gives each process a file, or one of the folders, at a time."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        folder = folder_of(nodeid)
        return folder if folder in TOGETHER else file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the folders first in a process of a parallel run; all processes need the same order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: place_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)  # nobody asks in a run of one process
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """The scheduler of a run in several processes."""
    return ByFolder(config, log)
