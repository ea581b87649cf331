"""Work on models, and a change of them between two pieces of work."""

from __future__ import annotations

import asyncio

from bot.worker.model_use import ModelUse


async def work(models: ModelUse, model: str, events: list[str], end: asyncio.Event) -> None:
    async with models.of(model):
        events.append(f"{model} begins")
        await end.wait()
        events.append(f"{model} ends")


async def change(models: ModelUse, events: list[str]) -> None:
    async with models.without({"old"}):
        events.append("change")


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_change_waits_for_the_work_under_way_and_holds_back_new_work() -> None:
    models, events, end, done = ModelUse(), list[str](), asyncio.Event(), asyncio.Event()
    done.set()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work(models, "old", events, end))
        await settled()
        tasks.create_task(change(models, events))
        await settled()
        assert models.leaving == {"old"}
        tasks.create_task(work(models, "old", events, done))
        tasks.create_task(work(models, "other", events, done))
        await settled()
        assert events == ["old begins", "other begins", "other ends"]
        end.set()
    assert events[3:] == ["old ends", "change", "old begins", "old ends"]
    assert models.leaving == frozenset()


async def test_work_that_is_cancelled_holds_no_change_up_and_a_cancelled_change_no_work() -> None:
    models, events, end = ModelUse(), list[str](), asyncio.Event()
    working = asyncio.create_task(work(models, "old", events, end))
    await settled()
    changing = asyncio.create_task(change(models, events))
    await settled()
    changing.cancel()
    await asyncio.gather(changing, return_exceptions=True)
    assert models.leaving == frozenset()
    changing = asyncio.create_task(change(models, events))
    await settled()
    working.cancel()
    await asyncio.wait_for(changing, 5)
    assert events == ["old begins", "change"]
