"""Which tests share a process in a parallel run: the tests of a file, and of some folders.

The tests of some folders share an engine or a demo, which each further process would have to make again.
Those of whole bots wait in real time, for leases and timers: one process has them all, and the others use the
cores meanwhile. These folders and the fleet's begin first, so that no process is left alone with one of them
at the end. The files of all other folders alternate: some wait in real time, others compute.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.scheduler.protocol import Scheduling

TOGETHER = ("tests/integration/engine", "tests/integration/whole", "tests/demo")
"""Each of these folders runs in one process."""

FIRST = ("tests/integration/engine", "tests/integration/whole", "tests/demo", "tests/integration/fleet")
"""The folders that begin first, the longest before the others."""

BACKWARDS = "tests/integration/engine"
"""Its files run in reverse order: the last, of the watchdog, waits in real time while types are checked."""

WAITING = ("tests/integration/front", "tests/browser")
"""Their files wait in real time, and begin before the last fifth of the others, which compute."""


def folder_of(nodeid: str) -> str:
    """Return the folder of a test's file."""
    return file_of(nodeid).rpartition("/")[0]


def file_of(nodeid: str) -> str:
    """Return a test's file."""
    return nodeid.partition("::")[0]


def places_of(nodeids: Iterable[str]) -> dict[str, float]:
    """Return the place of each test's file in the order of a parallel run: below 0 for the first folders."""
    files = list(dict.fromkeys(map(file_of, nodeids)))
    of_folder: dict[str, list[str]] = {}
    for file in files:
        of_folder.setdefault(folder_of(file), []).append(file)

    def place(file: str) -> float:
        folder = folder_of(file)
        part = of_folder[folder].index(file) / len(of_folder[folder])
        if folder in FIRST:
            return FIRST.index(folder) - len(FIRST) - (part if folder == BACKWARDS else 0)
        return 0.8 * part if folder in WAITING else part

    return {file: place(file) for file in files}


class ByFolder(LoadFileScheduling):
    """Gives each process a file, or one of the folders, at a time."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        folder = folder_of(nodeid)
        return folder if folder in TOGETHER else file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the folders first in a process of a parallel run; all processes need the same order."""
    if hasattr(config, "workerinput"):
        places = places_of(item.nodeid for item in items)
        items.sort(key=lambda item: places[file_of(item.nodeid)])


@pytest.hookimpl(optionalhook=True)  # nobody asks in a run of one process
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """The scheduler of a run in several processes."""
    return ByFolder(config, log)
