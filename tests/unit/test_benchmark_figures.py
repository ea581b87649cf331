"""The figures that benchmarks print."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import store_verbs
from faults import tell_milliseconds
from percentiles import percentile

from bot.domain.jobs import State
from bot.store import Store
from bot.store.tables.queue import images


@pytest.mark.parametrize(
    ("count", "percent", "rank"),
    [
        (200, 99, 198),
        (201, 99, 199),
        (100, 99, 99),
        (20, 95, 19),
        (3, 50, 2),
        (4, 50, 2),
        (7, 100, 7),
        (1, 0, 1),
    ],
)
def test_a_percentile_is_the_nearest_rank(count: int, percent: int, rank: int) -> None:
    assert percentile(range(count, 0, -1), percent) == rank


def test_a_run_without_an_answer_has_a_sentence() -> None:
    assert tell_milliseconds([]) == "no answer at all"
    assert tell_milliseconds([0.1, 0.2]).startswith("p50 100 ms, p95 200 ms")


async def test_verbs_are_timed_with_as_many_waiting_images_as_the_row_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_verbs, "TIMES", 2)
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3")
    crowd = store_verbs.RequestSource(store)
    for waiting in (100, 120):
        await crowd.fill(waiting)
        await store_verbs.latencies(crowd)
        async with store.shared.database.read() as connection:
            count = sa.select(sa.func.count()).where(images.c.state == State.WAITING)
            assert await connection.scalar(count) == waiting
    await store.close()
