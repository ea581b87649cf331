"""Search in a person's history, on every database."""

from __future__ import annotations

import pytest
from recipes import origin, recipe

import bot.store.queue.search as searching
from bot.store import Store

PROMPTS = (
    "A Red Boat",
    "50% of a boat_house",
    "ЛОДКА в тумане",
    "빨간 배",
    "a \\ boat",
    "red roses, no ship",
)


@pytest.fixture
async def filled(store: Store) -> Store:
    for number, prompt in enumerate(PROMPTS, start=1):
        await store.jobs.enqueue(recipe(prompt=prompt), origin(number))
    await store.jobs.enqueue(recipe(prompt="a red boat of another"), origin(99, user_id=12))
    return store


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("red boat", ["A Red Boat"]),
        ("BOAT", ["a \\ boat", "50% of a boat_house", "A Red Boat"]),
        ("лодка", ["ЛОДКА в тумане"]),
        ("빨간", ["빨간 배"]),
        ("%", ["50% of a boat_house"]),
        ("_", ["50% of a boat_house"]),
        ("\\", ["a \\ boat"]),
        ("red nothing", []),
    ],
)
async def test_jobs_are_found_whose_prompts_have_all_words_as_plain_text(
    filled: Store, search: str, found: list[str]
) -> None:
    jobs = await filled.jobs.history(11, limit=10, search=search)
    assert [job.recipe.prompt for job in jobs] == found


async def test_a_search_is_bounded_as_the_history_is(filled: Store) -> None:
    older = await filled.jobs.history(11, older_than=5, limit=10, search="boat")
    assert [job.origin.interaction_id for job in older] == [2, 1]
    newer = await filled.jobs.history(11, newer_than=1, limit=1, search="boat")
    assert [job.origin.interaction_id for job in newer] == [2]


async def test_a_blank_search_finds_all_jobs(filled: Store) -> None:
    assert len(await filled.jobs.history(11, limit=10, search="  ")) == len(PROMPTS)


async def test_a_search_reads_a_limited_number_of_jobs(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "CHUNK", 2)
    monkeypatch.setattr(searching, "SEARCHED", 4)
    assert [job.recipe.prompt for job in await filled.jobs.history(11, limit=9, search="boat")] == [
        "a \\ boat"
    ]
    monkeypatch.setattr(searching, "SEARCHED", 6)
    assert len(await filled.jobs.history(11, limit=9, search="boat")) == 3
