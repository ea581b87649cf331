"""The time for which the devices wait for a model's parameters is learned; nobody waits for evicted ones."""

from __future__ import annotations

import jax
import numpy as np

from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Residency


def test_the_seconds_of_a_move_are_a_moving_mean_and_count_while_the_model_is_away() -> None:
    times = iter([2.0, 4.0])
    residency = Residency(devices.mesh_over(jax.devices()[:1]), 16, clock=lambda: next(times))
    for name in ("first", "second"):
        residency.adopt(name, {"weights": np.zeros(4, np.float32)})
    assert residency.bring("second")
    assert not residency.bring("second"), "it is there"
    residency.finish_move("first", since=0.0)  # evicted again
    residency.finish_move("second", since=0.0)
    residency.finish_move("second", since=0.0)
    assert residency.move_seconds("second") == 0.0
    residency.bring("first")
    assert (residency.move_seconds("second"), residency.move_seconds("first")) == (3.0, 0.0)
