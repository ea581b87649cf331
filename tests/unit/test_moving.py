"""The speed of moves is learned; what is on the devices, or evicted again, delays nobody."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import jax
import numpy as np
from scripted_devices import Script, ScriptedDevices, prepared

from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Residency
from sdjax_engine.scheduler.lane_queue import LaneQueue, Seats
from sdjax_engine.scheduler.loop import Scheduler, Watchdog
from sdjax_engine.scheduler.pending import PendingRequest


def parameters(*sizes: int) -> dict[str, dict[str, np.ndarray]]:
    names = ("denoiser", "texts")
    return {name: {"weights": np.zeros(size, np.uint8)} for name, size in zip(names, sizes, strict=False)}


def test_the_speed_of_moves_is_that_of_late_ones_most_and_counts_for_what_is_away() -> None:
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
    assert (residency.move_seconds("second"), residency.move_seconds("first")) == ((2.0 / 2 + 4.0) / 1.5, 0.0)


def test_a_small_move_that_takes_long_makes_no_large_one_seem_longer_than_both() -> None:
    times = iter([14.0, 10.0])
    residency = Residency(devices.mesh_over(jax.devices()[:1]), 1402, clock=lambda: next(times))
    for name in ("first", "second"):
        residency.adopt(name, parameters(1400, 2))
    for group in ("denoiser", "texts"):
        residency.bring("second", group)
        residency.finish_moves(residency.take_moves(), since=0.0)
    assert residency.move_seconds("first") < 14.0 + 2 * 10.0


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


class MovingDevices(ScriptedDevices):
    """A lane whose model is moved at the start, and again for every newcomer; `measured` are moves."""

    def __init__(self) -> None:
        super().__init__(Script(), devices=1, seats_per_device=1)
        self.moves, self.measured = ["at the start"], list[str]()

    def admit(self, *arguments: Any) -> bool:
        """Let newcomers in, for whom something is moved."""
        self.moves.append("for newcomers")
        return super().admit(*arguments)

    def take_moves(self) -> Any:
        """Return what was moved since the last call."""
        moves, self.moves = self.moves, []
        return moves

    def finish_moves(self, moves: Collection[str], _since: float) -> None:
        """Note what a run waited for."""
        self.measured += moves


def test_the_speed_of_moves_is_not_measured_by_a_run_that_did_not_wait_for_them() -> None:
    device = MovingDevices()
    queue = LaneQueue(device=device, seats=Seats(devices=1, seats_per_device=1))
    watchdog = Watchdog(clock=lambda: 0.0, stuck_after=0.0)
    scheduler = Scheduler(
        {queue.lane: queue}, clock=lambda: 0.0, watchdog=watchdog, on_first_pass=lambda *_: None
    )
    scheduler.table.join(PendingRequest(prepared=prepared()))
    while scheduler.table.present:
        scheduler.turn()
    assert device.measured == ["for newcomers"]
