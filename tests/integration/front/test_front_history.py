"""/history and its buttons, and the weights of roles."""

from __future__ import annotations

import re
from collections import Counter

from front_tools import delete, ephemeral, finished, queued, text_of
from recipes import origin, recipe
from results import shows_result
from serving import Served, serving
from stores import undelivered

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import MODERATORS_ID, PEOPLE
from bot.sandbox.server import Sandbox
from bot.store import Store

RAVI = PEOPLE[1].id


def prompts(message: dict[str, object]) -> list[str]:
    lines = text_of(message).strip().splitlines()
    return [line.split(" · ")[1] for line in lines if re.match(r"\d+\. ", line)]


async def test_a_finished_picture_is_linked_to_its_asker_alone(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, shown = await finished(served, ravi, "a boat")
    message = await ravi.message_of(await ravi.use("history"))
    assert ephemeral(message)
    assert f"[message](https://discord.com/channels/{job.origin.guild_id}/" in text_of(message)
    assert f"/{shown['id']})" in text_of(message)
    nothing = await omar.message_of(await omar.use("history"))
    assert "You have no requests yet." in text_of(nothing)


async def test_pages_are_turned_after_a_restart_too(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    for number in range(1, 24):
        job = await store.jobs.enqueue(recipe(prompt=f"wish {number}"), origin(number, user_id=RAVI))
        await store.jobs.cancel(job.id, user_id=None)
    for delivery in await undelivered(store, limit=50):
        await store.deliveries.mark_delivered(delivery, outcome="delivered")
    async with serving(sandbox, store, artifacts, Config()):
        message = await ravi.message_of(await ravi.use("history"))
    assert prompts(message) == [f"wish {number}" for number in range(23, 13, -1)]

    async def turned(label: str, first: int) -> dict[str, object]:
        await ravi.press(message, label)
        return await ravi.wait_for_message(lambda seen: prompts(seen)[:1] == [f"wish {first}"])

    async with serving(sandbox, store, artifacts, Config()):
        message = await turned("Older", 13)
        message = await turned("Older", 3)
        assert len(prompts(message)) == 3
        message = await turned("Newer", 13)
        message = await turned("Newer", 23)


async def test_a_role_of_weight_two_gets_twice_as_many_pictures(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, mina: Member, omar: Member
) -> None:
    role = {"role": MODERATORS_ID, "weight": 2.0}
    config = Config.parse({"queue": {"roles": [role], "full_share_images": 100}})
    async with serving(sandbox, store, artifacts, config):
        for number in range(4):
            for member in (omar, mina):
                await queued(member, f"wish {number}", variants=9)
        claims = await store.leases.claim("worker", limit=30, ttl=60.0)
        owners = Counter([(await store.jobs.get(claim.job_id)).origin.user_id for claim in claims])
    assert owners == {PEOPLE[0].id: 20, PEOPLE[3].id: 10}


async def test_a_private_picture_is_shown_again_to_its_owner_alone(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, shown = await finished(served, ravi, "a secret", private=True)
    listed = await ravi.message_of(await ravi.use("history"))
    interaction = await ravi.press(listed, "Show one again, with its buttons", values=[job.id])
    again = await ravi.message_of(interaction, shows_result)
    assert ephemeral(again)
    assert again["id"] != shown["id"]
    assert await ravi.pictures(again) == await ravi.pictures(shown)
    assert "a secret" in text_of(again)
    assert not [seen for seen in await omar.messages() if seen["id"] == again["id"]]
    await delete(ravi, again)
    assert (await served.store.jobs.get(job.id)).deleted_at is not None
    listed = await ravi.message_of(await ravi.use("history"))
    assert "deleted" in text_of(listed)
    assert "history_show" not in str(listed["components"])
