"""The queue's clock, which may be set at any time."""

import logging
import math

import pytest
from stores import Hands

from bot.store.database.database import Clock


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_clock_jump_is_logged_once_and_remembered(jump: float, caplog: pytest.LogCaptureFixture) -> None:
    hands, jumps = Hands(), []
    clock = Clock(lambda: hands.wall, lambda: hands.steady, on_jump=lambda: jumps.append(1))
    assert clock() == hands.wall
    assert clock.undisturbed == math.inf
    hands.go_on(10.0)
    hands.wall += jump
    with caplog.at_level(logging.WARNING):
        assert clock() == hands.wall
    hands.go_on(4.0)
    assert clock.undisturbed == 4.0
    assert len(jumps) == 1
    assert f"{jump:+.0f} s" in caplog.text


def test_a_clock_that_is_only_corrected_has_not_jumped() -> None:
    hands = Hands()
    clock = Clock(lambda: hands.wall, lambda: hands.steady)
    for _ in range(100):
        hands.go_on(1.0)
        hands.wall += 0.3
        clock()
    assert clock.undisturbed == math.inf
