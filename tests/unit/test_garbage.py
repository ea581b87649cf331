"""Full garbage collections while a large object is opened."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from bot.config import Config
from bot.process.garbage import paused_collections
from bot.worker import opening


@pytest.fixture(autouse=True)
def usual() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def test_an_engine_that_cannot_be_opened_leaves_collections_as_they_were(
    usual: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise OSError("no such checkpoint")

    monkeypatch.setattr(opening.Engine, "open", refuse)
    with pytest.raises(OSError, match="no such checkpoint"):
        opening.open_engine(Config(), lambda _line: None)
    assert gc.get_threshold() == usual


def fail_while_paused() -> None:
    with paused_collections():
        assert not gc.isenabled()
        raise ImportError


@pytest.mark.parametrize("before", [True, False])
def test_no_collection_runs_while_paused_and_the_setting_is_restored(before: bool) -> None:
    enabled = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(ImportError):
            fail_while_paused()
        assert gc.isenabled() is before
    finally:
        (gc.enable if enabled else gc.disable)()
