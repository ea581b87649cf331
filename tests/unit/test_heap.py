"""Python's garbage collector rests while imports fill the heap, and is then as it was."""

from __future__ import annotations

import gc

import pytest

from sdjax_engine.memory.heap import collector_at_rest


def break_down() -> None:
    with collector_at_rest():
        assert not gc.isenabled()
        raise ImportError


@pytest.mark.parametrize("before", [True, False])
def test_the_collector_rests_meanwhile_and_is_then_as_it_was(before: bool) -> None:
    enabled = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(ImportError):
            break_down()
        assert gc.isenabled() is before
    finally:
        (gc.enable if enabled else gc.disable)()
