"""The first answer to an interaction when requests or responses are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from front_tools import job_of, queued, refusal, text_of
from serving import Served, serving, until

from bot.config import Config
from bot.domain.jobs import State
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store

FIRST_ANSWERS = "/callback"
FAULTS = ("rest_5xx", "lose_answers", "drop_requests", "drop_answers", "hang_answers")


@pytest.fixture
async def sandbox(timed: Sandbox) -> AsyncIterator[Sandbox]:
    """A sandbox whose time does not pass: only the arrival of an answer matters."""
    yield timed
    assert timed.violations == []


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_request_is_queued_although_its_acknowledgement_fails_in_transit(
    served: Served, mina: Member, fault: str
) -> None:
    served.sandbox.misbehave(**{fault: 1, "on": FIRST_ANSWERS})
    assert "Queued, 1st" in text_of(await queued(mina, "a circle"))
    await job_of(served.store, "a circle")
    assert served.sandbox.acknowledgement_seconds[-1] is not None


async def test_a_press_is_handled_although_the_answer_to_its_acknowledgement_is_lost(
    served: Served, mina: Member
) -> None:
    message = await queued(mina, "a circle")
    job = await job_of(served.store, "a circle")
    served.sandbox.misbehave(drop_answers=1, on=FIRST_ANSWERS)
    await mina.press(message, "Cancel")

    async def cancelled() -> bool:
        return (await served.store.jobs.get(job.id)).state is State.CANCELLED

    await until(cancelled)


async def test_a_refusal_is_shown_once_although_the_answer_to_it_is_lost(
    served: Served, mina: Member
) -> None:
    served.sandbox.misbehave(drop_answers=1, on=FIRST_ANSWERS)
    interaction = await mina.imagine(prompt="a circle", size="7x7")
    assert "7x7" in await refusal(mina, interaction)
    assert len(await mina.messages()) == 1


@pytest.fixture
async def twins(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object
) -> AsyncIterator[tuple[Served, Served]]:
    """Two fronts with the same shard."""
    async with (
        serving(sandbox, store, artifacts, Config(), name="first") as first,
        serving(sandbox, store, artifacts, Config(), name="second") as second,
    ):
        yield first, second


@pytest.mark.parametrize("faults", [{}, {"drop_answers": 1}, {"rest_5xx": 2}])
async def test_of_two_fronts_that_receive_a_request_one_handles_it(
    twins: tuple[Served, Served], mina: Member, faults: dict[str, int]
) -> None:
    twins[0].sandbox.misbehave(**faults, on=FIRST_ANSWERS)
    message = await queued(mina, "a circle")
    job = await job_of(twins[0].store, "a circle")
    assert "Queued, 1st" in text_of(message)
    async with asyncio.timeout(20):
        for twin in twins:
            await twin.bot.services.open_interactions.finished()
    accepted = [twin.bot.services.metrics.jobs_accepted._value.get() for twin in twins]
    assert sorted(accepted) == [0, 1]
    assert accepted[["first", "second"].index(str(job.origin.front))] == 1
    assert len(await mina.messages()) == 1
