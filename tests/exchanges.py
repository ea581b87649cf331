"""Discord's documents in one test process, and the number of exchanges that all processes validated."""

from __future__ import annotations

from typing import Any

import pytest
from discord_spec import NOT_VALIDATED, Documents, folder

DOCUMENTS = pytest.StashKey[Documents]()
CHECKED_ELSEWHERE = pytest.StashKey[int]()
COUNT = "exchanges"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CHECKED_ELSEWHERE] = 0
    place = folder()
    if place is not None:
        config.stash[DOCUMENTS] = Documents(place)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the count to the controlling process, if this is a worker process."""
    documents = session.config.stash.get(DOCUMENTS, None)
    if documents is not None and hasattr(session.config, "workeroutput"):
        session.config.workeroutput[COUNT] = documents.checked


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the count of another process."""
    told = getattr(node, "workeroutput", {})
    node.config.stash[CHECKED_ELSEWHERE] += told.get(COUNT, 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    documents = config.stash.get(DOCUMENTS, None)
    if documents is None:
        terminalreporter.write_line(NOT_VALIDATED, red=True, bold=True)
    else:
        checked = documents.checked + config.stash[CHECKED_ELSEWHERE]
        terminalreporter.write_line(f"{checked} exchanges validated against {documents.place}")
