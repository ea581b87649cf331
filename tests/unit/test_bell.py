"""Wake-ups within a process."""

import asyncio

from bot.store.bell import Bell


async def test_a_ring_wakes_everyone_who_waits() -> None:
    bell = Bell()
    waiters = [asyncio.create_task(bell.wait(60)) for _ in range(3)]
    await asyncio.sleep(0)
    bell.ring()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiters)


async def test_a_ring_that_nobody_heard_wakes_the_next() -> None:
    bell = Bell()
    bell.ring()
    async with asyncio.timeout(5):
        await bell.wait(60)


async def test_without_a_ring_the_wait_ends_by_itself() -> None:
    bell = Bell()
    bell.ring()
    await bell.wait(60)
    async with asyncio.timeout(5):
        await bell.wait(0.01)
