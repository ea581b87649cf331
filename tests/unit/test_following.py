"""A front waits for what workers publish, and follows it and other configurations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from engines import TINY
from stores import Clock

from bot.app.offers import ASK_AGAIN_SECONDS, Asking, Following, wait_for_defaults
from bot.config import Config
from sdjax_engine.request import Offer


class Published:
    """The offers of workers, and the models that were asked for."""

    def __init__(self, *offers: Offer) -> None:
        self.found = {offer.model: offer for offer in offers}
        self.asked: list[list[str]] = []

    async def published(self, _names: Sequence[str]) -> dict[str, Offer]:
        return self.found

    async def await_published(self, models: Sequence[str], *, ttl: float) -> None:
        assert ttl > ASK_AGAIN_SECONDS
        self.asked.append(list(models))


def configured(*names: str) -> Config:
    """Models that leave their sizes and defaults to their files."""
    return Config.parse({"models": [{"name": name, "checkpoint": f"/{name}"} for name in names]})


async def test_a_configuration_that_comes_during_a_change_is_taken_after_it() -> None:
    changes: list[tuple[Offer, ...]] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def change(offers: tuple[Offer, ...]) -> None:
        changes.append(offers)
        begun.set()
        await goes_on.wait()

    following = Following(Config(), Published(), change)  # type: ignore[arg-type]
    polling = asyncio.create_task(following.run(poll_seconds=0.0))
    await begun.wait()
    reloading = asyncio.create_task(following.reconfigure(Config()))
    await asyncio.sleep(0)  # it waits for the change under way
    goes_on.set()
    await reloading
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    assert len(changes) == 2, "the same offers, with other texts of the commands"


async def test_a_model_stays_offered_while_a_newer_worker_publishes_what_cannot_be_read() -> None:
    calls: list[list[str]] = []

    async def change(found: tuple[Offer, ...]) -> None:
        calls.append([offer.model for offer in found])

    offers = Published(*(replace(TINY, model=name) for name in ("first", "second")))
    following = Following(configured("first", "second"), offers, change)  # type: ignore[arg-type]
    await following.reconfigure(configured("first", "second"))
    del offers.found["first"]  # `published` leaves out an offer that it cannot read
    offers.found["second"] = replace(TINY, model="second", num_inference_steps=9)
    polling = asyncio.create_task(following.run(poll_seconds=0.0))
    while len(calls) < 2:  # noqa: ASYNC110 - the poll has no event
        await asyncio.sleep(0)
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    assert calls == [["first", "second"]] * 2


async def test_a_front_asks_for_a_worker_until_the_first_model_is_complete(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("bot.app.offers.POLL_SECONDS", 0.0)
    offers = Published()
    waiting = asyncio.create_task(wait_for_defaults(configured("first", "second"), offers))  # type: ignore[arg-type]
    while not caplog.records:  # noqa: ASYNC110 - the log has no event
        await asyncio.sleep(0)
    assert offers.asked == [["first", "second"]]
    offers.found["second"] = replace(TINY, model="second")
    found = await waiting
    assert [(model.name, model.sizes) for model in found.models] == [("second", ("16x16",))]
    assert "first is offered once a worker has published" in caplog.text


async def test_models_are_asked_for_again_before_the_demand_forgets_them() -> None:
    clock, offers = Clock(), Published()
    asking = Asking(offers, longest=1000.0, clock=clock)  # type: ignore[arg-type]
    await asking.ask([])
    for seconds in (0.0, 1.0, ASK_AGAIN_SECONDS - 1.0):
        clock.now += seconds
        await asking.ask(["first"])
    assert offers.asked == [["first"]] * 2
    for seconds in (1000.0, ASK_AGAIN_SECONDS):
        clock.now += seconds
        await asking.ask(["first"])
    assert len(offers.asked) == 2, "a model that no worker can read keeps no worker"


async def test_a_front_goes_on_asking_for_a_model_that_its_workers_have_not_read() -> None:
    changes: list[tuple[Offer, ...]] = []

    async def change(offers: tuple[Offer, ...]) -> None:
        changes.append(offers)

    offers = Published(replace(TINY, model="second"))
    following = Following(configured("first", "second"), offers, change)  # type: ignore[arg-type]
    await following.reconfigure(configured("first", "second"))
    assert offers.asked == [["first"]]
    assert [[offer.model for offer in change] for change in changes] == [["second"]]
