"""One demo for all the tests that visit it."""

from __future__ import annotations

import signal

import pytest
from running_demo import Demo, RunningDemo

RUNNING = pytest.StashKey[RunningDemo]()


@pytest.fixture
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """A demo in an empty folder; it must end quietly, with status 0, when it is interrupted.

    It ends with the tests of this folder. A demo that lives on takes 3 % of a core.
    """
    folder = request.node.getparent(pytest.Dir)
    assert folder is not None
    if RUNNING not in folder.stash:
        running = folder.stash[RUNNING] = RunningDemo(tmp_path_factory.mktemp("demo"))

        def end() -> None:
            status, said, error = running.end(signal.SIGINT)
            assert (status, error) == (0, "")
            assert "A stop is asked for: what is under way is finished or given back" in said

        folder.addfinalizer(end)
        running.wait_until_serving()
    return folder.stash[RUNNING].demo
