"""A front follows another configuration, also while it registers the commands of the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bot.app.offers import Following
from bot.config import Config
from sdjax_engine.request import Offer


class NothingPublished:
    """The offers of no worker."""

    async def published(self, _names: Sequence[str]) -> dict[str, Offer]:
        return {}


async def test_a_configuration_that_comes_during_a_change_is_taken_after_it() -> None:
    changes: list[tuple[Offer, ...]] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def change(offers: tuple[Offer, ...]) -> None:
        changes.append(offers)
        begun.set()
        await goes_on.wait()

    following = Following(Config(), NothingPublished(), (), change)  # type: ignore[arg-type]
    polling = asyncio.create_task(following.run(poll_seconds=0.0))
    await begun.wait()
    reloading = asyncio.create_task(following.reconfigure(Config()))
    await asyncio.sleep(0)  # it waits for the change under way
    goes_on.set()
    await reloading
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    assert len(changes) == 2, "the same offers, with other texts of the commands"
