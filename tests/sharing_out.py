"""Which tests share a process in a parallel run: the tests of a file, and of some folders.

The tests of these folders share an engine or a demo, which each further process would have to make again.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.scheduler.protocol import Scheduling

TOGETHER = ("tests/demo", "tests/integration/engine", "tests/integration/whole")


class ByFolder(LoadFileScheduling):
    """Gives each process a file, or one of the folders, at a time."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        folder = file.rpartition("/")[0]
        return folder if folder in TOGETHER else file


@pytest.hookimpl(optionalhook=True)  # nobody asks in a run of one process
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """The scheduler of a run with `--numprocesses`."""
    return ByFolder(config, log)
