"""The right to repeat a job, and the acknowledgement before any read of the database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from front_tools import Message, ephemeral, finished, job_of, refusal, text_of
from recipes import origin, recipe
from serving import Served

from bot.domain.jobs import Job
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.sandbox.component_rules import walk

ELSEWHERE = GUILD_ID + 77
LOADING = 1 << 7
UNKNOWN = "The bot does not have this picture, or no longer has it."


def forge(served: Served, message: Message, kind: str, custom_id: str) -> None:
    """Make a message's button of this kind name another job, as a modified client does."""
    shown = served.sandbox._core.world.messages[int(message["id"])]
    for _, component in walk(shown.components):
        if str(component.get("custom_id")).startswith(f"{kind}:"):
            component["custom_id"] = custom_id


async def half_painted(served: Served, number: int, **values: Any) -> Job:
    """Return a job from another server with its first picture painted; nothing is delivered."""
    asked = recipe(prompt=f"secret {number}", variants=2)
    job = await served.store.jobs.enqueue(asked, origin(number, user_id=1, **values))
    first, _ = await served.store.leases.claim("test", limit=2, ttl=60.0)
    await served.store.leases.complete(first, artifact=f"aa/{number}.png", seconds=1.0)
    return job


@pytest.mark.parametrize(("label", "kind"), [("Again", "again:{}"), ("Vary", "vary:{}:0")])
async def test_a_job_that_a_person_cannot_see_cannot_be_repeated_by_its_id(
    served: Served, ravi: Member, mina: Member, label: str, kind: str
) -> None:
    _, message = await finished(served, ravi, "a boat")
    here = {"guild_id": GUILD_ID, "channel_id": int(message["channel_id"])}
    hidden = [
        await half_painted(served, 1, guild_id=ELSEWHERE, private=True),
        await half_painted(served, 2, guild_id=ELSEWHERE),
        await half_painted(served, 3, guild_id=None),
        await half_painted(served, 4, private=True, **here),
    ]
    for job in hidden:
        forge(served, message, kind.partition(":")[0], kind.format(job.id))
        for member in (ravi, mina):  # of whom one moderates
            shown = next(one for one in await member.messages() if one["id"] == message["id"])
            assert await refusal(member, await member.press(shown, label)) == UNKNOWN
    assert {job.id for job in await served.store.jobs.active()} == {job.id for job in hidden}


async def test_a_private_prompt_is_not_repeated_in_public(served: Served, ravi: Member) -> None:
    secret, _ = await finished(served, ravi, "a secret", private=True)
    _, message = await finished(served, ravi, "a boat")
    forge(served, message, "again", f"again:{secret.id}")
    (shown,) = [one for one in await ravi.messages() if one["id"] == message["id"]]
    assert await refusal(ravi, await ravi.press(shown, "Again")) == UNKNOWN
    assert await served.store.jobs.active() == []


async def test_vary_of_a_private_picture_is_private(served: Served, ravi: Member) -> None:
    _, message = await finished(served, ravi, "a secret", private=True)
    answer = await ravi.message_of(await ravi.press(message, "Vary"))
    assert ephemeral(answer)
    assert (await job_of(served.store, "a secret")).origin.private


@pytest.mark.parametrize("label", ["Again", "Vary"])
async def test_a_button_is_acknowledged_while_the_database_hangs(
    served: Served, ravi: Member, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    _, message = await finished(served, ravi, "a boat")
    look, answers = served.store.jobs.get, asyncio.Event()

    async def hang(job_id: str) -> Job:
        await answers.wait()
        return await look(job_id)

    monkeypatch.setattr(served.store.jobs, "get", hang)
    pressed = await ravi.press(message, label)
    try:
        await ravi.message_of(pressed, lambda one: bool(one["flags"] & LOADING), timeout=10)
    finally:
        answers.set()
    assert "Queued, 1st" in text_of(await ravi.message_of(pressed))
