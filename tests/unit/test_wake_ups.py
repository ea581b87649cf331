"""Wake-ups within a process."""

import asyncio

from bot.store.database.database import WakeUp


async def test_a_ring_wakes_every_waiting_loop() -> None:
    wake_up = WakeUp()
    waiters = [asyncio.create_task(wake_up.wait(60)) for _ in range(3)]
    await asyncio.sleep(0)
    wake_up.ring()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiters)


async def test_an_unheard_ring_wakes_the_next_wait() -> None:
    wake_up = WakeUp()
    wake_up.ring()
    async with asyncio.timeout(5):
        await wake_up.wait(60)


async def test_without_a_ring_the_wait_ends_by_itself() -> None:
    wake_up = WakeUp()
    wake_up.ring()
    await wake_up.wait(60)
    async with asyncio.timeout(5):
        await wake_up.wait(0.01)
