"""A busy evening of the store in virtual time: the errors of estimates, and fair shares."""

import statistics
import sys
from pathlib import Path

import pytest

from bot.store import Store

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from store_evening import EveningClock, SimulatedEvening, Size, busy_evening, flood, jain

SIZES = (
    Size(side=128, seats=4, step_seconds=0.1),
    Size(side=192, seats=4, step_seconds=0.2),
    Size(side=256, seats=2, step_seconds=0.3),
)
ONE_SIZE = (Size(side=128, seats=4, step_seconds=0.1),)


@pytest.fixture
async def store(database: Path, clock: EveningClock) -> Store:
    return await Store.open(f"sqlite+aiosqlite:///{database}", clock=clock)


@pytest.fixture
def clock() -> EveningClock:
    return EveningClock()


async def test_estimated_times_to_start_and_end_are_close_in_a_busy_evening(
    store: Store, clock: EveningClock
) -> None:
    evening = SimulatedEvening(store, clock, sizes=SIZES, painters=2, ask_again=1000.0)
    await evening.play(busy_evening(seconds=170, sizes=SIZES, painters=2, load=1.3, people=40, seed=2))
    await store.close()
    for of_end in (False, True):
        errors = evening.errors(least=5.0, later=False, of_end=of_end)
        assert len(errors) > 50
        assert statistics.median(errors) <= 0.25


async def test_a_busy_hour_is_shared_fairly(store: Store, clock: EveningClock) -> None:
    evening = SimulatedEvening(store, clock, sizes=ONE_SIZE, painters=1)
    wishes = flood(users=(1,), images=80, steps=(20,), side=128)
    wishes += flood(users=(2, 3), images=48, steps=(10, 30, 50), side=128)
    wishes += flood(users=(4,), images=48, steps=(40,), side=128, at=30.0)
    await evening.play(wishes, until=120.0)
    await store.close()
    served = evening.served(start=50.0, end=120.0)
    assert jain([served[user] for user in (1, 2, 3, 4)]) >= 0.99
