"""The clock and the turns of the benchmark in which two engines serve alternately."""

from __future__ import annotations

import itertools
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from serving_turns import InTurns, Reading, StoppableClock, Turns


class Machine:
    """A machine whose time is moved by hand; its processors work half of it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> Reading:
        return Reading(self.seconds, self.seconds / 2)


class SlowDevice:
    """Runs that take ten seconds of the machine's time as soon as they are queued."""

    def __init__(self, name: str, machine: Machine, log: list[str]) -> None:
        self.name, self._machine, self._log = name, machine, log
        self.seats = 2

    def bring(self) -> None:
        self._log.append(self.name)

    def denoise(self, _spans: object) -> Any:
        self._machine.seconds += 10.0
        return self

    def decode(self, seats: list[int]) -> dict[int, Any]:
        return dict.fromkeys(seats, self)

    def wait(self) -> None:
        self._log.append(f"{self.name} waited for")

    def fetch(self) -> None:
        self._log.append(f"{self.name} fetched")


def test_a_stopped_clock_resumes_at_its_reading() -> None:
    machine = Machine()
    clock = StoppableClock(machine)
    machine.seconds = 4.0
    clock.stop()
    machine.seconds = 9.0
    assert clock.read() == Reading(4.0, 2.0)
    clock.stop()
    clock.go()
    clock.go()
    machine.seconds = 10.0
    assert (clock(), clock.read().worked) == (5.0, 2.5)


def test_a_sleep_lasts_while_its_clock_is_stopped() -> None:
    machine, woken = Machine(), threading.Event()
    clock = StoppableClock(machine)
    machine.seconds = 1.0
    clock.stop()
    sleeper = threading.Thread(target=lambda: (clock.sleep_until(1.0625), woken.set()), daemon=True)
    sleeper.start()
    machine.seconds = 9.0
    assert not woken.wait(0.1)
    clock.go()
    assert not woken.wait(0.1)
    machine.seconds += 0.0625
    assert woken.wait(10.0)
    sleeper.join()
    clock.sleep_until(1.0)


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_engines_have_the_devices_in_turns_and_see_no_time_of_each_other(order: tuple[str, str]) -> None:
    machine, log = Machine(), list[str]()
    clocks = {name: StoppableClock(machine) for name in order}
    turns = Turns(clocks, order)
    runs = {order[0]: 6, order[1]: 3}
    took = {}

    def serve(name: str) -> None:
        device = InTurns(SlowDevice(name, machine, log), turns, name, pictures=2)
        begun = clocks[name]()
        for _ in range(runs[name]):
            device.bring()
            device.denoise({})
            device.decode([0])
        took[name] = clocks[name]() - begun
        turns.leave(name)

    threads = [threading.Thread(target=serve, args=(name,)) for name in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10.0)
    assert took == {order[0]: 60.0, order[1]: 30.0}
    used = [name for name in log if " " not in name]
    first, second = order
    assert [(name, len(list(group))) for name, group in itertools.groupby(used)] == [
        (first, 2),
        (second, 2),
        (first, 2),
        (second, 1),
        (first, 2),
    ]
    handed_over = log.index(second)
    assert log[handed_over - 3 : handed_over] == [f"{first} waited for", *[f"{first} fetched"] * 2]
    machine.seconds += 1.0
    assert [clocks[name]() for name in order] == [61.0, 30.0 + 20.0 + 1.0], "who has left goes by all time"


def test_a_lane_in_turns_is_otherwise_unchanged() -> None:
    machine = Machine()
    device = InTurns(
        SlowDevice("one", machine, []), Turns({"one": StoppableClock(machine)}, ["one"]), "one", pictures=2
    )
    assert (device.seats, device.name) == (2, "one")
