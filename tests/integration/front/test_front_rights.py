"""Privacy of repeats, and the acknowledgement before any read of the database."""

from __future__ import annotations

import asyncio

import pytest
from front_tools import Message, ephemeral, finished, job_of, refusal, text_of
from serving import Served

from bot.domain.jobs import Job
from bot.sandbox.client import Member
from bot.sandbox.component_rules import walk

LOADING = 1 << 7
UNKNOWN = "The bot does not have this picture, or no longer has it."


def forge(served: Served, message: Message, kind: str, custom_id: str) -> None:
    """Make a message's button of this kind name another job, as a modified client does."""
    shown = served.sandbox._core.world.messages[int(message["id"])]
    for _, component in walk(shown.components):
        if str(component.get("custom_id")).startswith(f"{kind}:"):
            component["custom_id"] = custom_id


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
