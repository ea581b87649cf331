"""The speed of moves is learned; what is on the devices, or evicted again, delays nobody."""

from __future__ import annotations

import jax
import numpy as np

from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Residency


def parameters(*sizes: int) -> dict[str, dict[str, np.ndarray]]:
    names = ("denoiser", "texts")
    return {name: {"weights": np.zeros(size, np.uint8)} for name, size in zip(names, sizes, strict=False)}


def test_the_speed_of_moves_is_a_moving_mean_and_counts_for_what_is_away() -> None:
    times = iter([2.0, 4.0])
    residency = Residency(devices.mesh_over(jax.devices()[:1]), 16, clock=lambda: next(times))
    for name in ("first", "second"):
        residency.adopt(name, parameters(16))
    assert residency.take_moves() == (), "what moved at the start delayed no run"
    assert residency.bring("second")
    assert not residency.bring("second"), "it is there"
    [moved] = residency.take_moves()
    residency.bring("first")
    [first] = residency.take_moves()
    residency.finish_moves([moved], since=0.0)  # evicted again
    assert residency.move_seconds("second") == 0.0
    residency.finish_moves([first], since=0.0)
    residency.finish_moves([first], since=0.0)
    assert (residency.move_seconds("second"), residency.move_seconds("first")) == (3.0, 0.0)


def test_a_group_that_makes_another_leave_costs_both_moves() -> None:
    residency = Residency(devices.mesh_over(jax.devices()[:1]), 16, clock=lambda: 14.0)
    for name, texts in (("narrow", 12), ("roomy", 2)):
        residency.adopt(name, parameters(14, texts))
    assert residency.bring("roomy", "denoiser")
    residency.finish_moves(residency.take_moves(), since=0.0)  # 14 bytes in 14 seconds
    assert residency.turn_seconds("narrow", "texts", "denoiser") == 12 + 14
    assert residency.turn_seconds("roomy", "texts", "denoiser") == 0.0, "they are there"
    residency.bring("narrow", "texts")
    assert residency.turn_seconds("roomy", "texts", "denoiser") == 2
