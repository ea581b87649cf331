"""Several fronts: each answers its own shards, and every result is delivered once after any death."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from front_tools import text_of
from recipes import origin, recipe
from results import shows_result
from serving import Served, serving, until

from bot.config import Config, DiscordConfig
from bot.files.artifacts import Artifacts
from bot.membership.processes import Process, Processes
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.sandbox.server import Sandbox
from bot.store import Store

SHARDS = 3  # with two, the first would have both the sandbox's server and direct messages
LIFE = 20.0


def config_of(*shard_ids: int) -> Config:
    return Config(discord=DiscordConfig(shard_count=SHARDS, shard_ids=shard_ids))


@pytest.fixture
async def fronts(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object
) -> AsyncIterator[tuple[Served, Served, AsyncExitStack]]:
    """The front of direct messages, the front of the server, and the stack that ends the latter."""
    async with (
        serving(sandbox, store, artifacts, config_of(0), name="first") as first,
        AsyncExitStack() as end,
    ):
        config = config_of((GUILD_ID >> 22) % SHARDS)
        second = await end.enter_async_context(serving(sandbox, store, artifacts, config, name="second"))
        yield first, second, end


async def test_each_front_answers_its_shards_and_delivers_the_results_of_its_jobs(
    fronts: tuple[Served, Served, AsyncExitStack], mina: Member
) -> None:
    first, _, _ = fronts
    asked = {"dm": await mina.imagine(prompt="a direct circle", channel="dm")}
    asked["art"] = await mina.imagine(prompt="a circle in public")
    for channel, interaction in asked.items():
        await mina.message_of(interaction, channel=channel)
    jobs = {job.recipe.prompt: job for job in await first.store.jobs.active()}
    assert jobs["a direct circle"].origin.front == "first"
    assert jobs["a circle in public"].origin.front == "second"
    for job in jobs.values():
        await first.paint(job.id)
    for channel, interaction in asked.items():
        await mina.message_of(interaction, shows_result, channel=channel)
        assert len(await mina.messages(channel)) == 1


async def test_another_front_delivers_the_results_of_a_dead_front(
    fronts: tuple[Served, Served, AsyncExitStack], mina: Member
) -> None:
    first, _, end = fronts
    dying = Process(name="second", secret="a", role="front", machine="here", folder="here")
    await Processes(first.store.shared).join(dying, ttl=0.0)
    interaction = await mina.imagine(prompt="a circle in public")
    await mina.message_of(interaction)
    (job,) = await first.store.jobs.active()
    await end.aclose()
    await first.paint(job.id)
    assert await first.store.deliveries.claim("first", limit=9) == []
    assert await Processes(first.store.shared).release_dead() == ["second"]
    await mina.message_of(interaction, shows_result)
    assert len(await mina.messages()) == 1


async def test_only_the_front_of_the_first_shard_registers_commands(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object, mina: Member
) -> None:
    async with serving(sandbox, store, artifacts, config_of(1), name="second"):
        assert (await mina.state())["commands"] == []
        async with serving(sandbox, store, artifacts, config_of(0), name="first"):
            assert "imagine" in {command["name"] for command in (await mina.state())["commands"]}


async def test_a_press_that_is_handled_during_a_shutdown_is_finished(
    sandbox: Sandbox, served: Served, ravi: Member
) -> None:
    for number in range(1, 12):
        job = await served.store.jobs.enqueue(recipe(), origin(number, user_id=PEOPLE[1].id))
        await served.store.jobs.cancel(job.id, user_id=None)
    page = await ravi.message_of(await ravi.use("history"))
    sandbox.misbehave(slow_ms=300)
    await ravi.press(page, "Older")
    await until(lambda: is_underway(served))
    await served.bot.hear_no_more()
    await ravi.wait_for_message(lambda message: "Newer" in str(message["components"]))


async def is_underway(served: Served) -> bool:
    return not served.bot.services.open_interactions._none.is_set()


async def test_a_shutdown_finishes_open_commands_and_receives_no_more(
    sandbox: Sandbox, served: Served, mina: Member
) -> None:
    await mina.misbehave(slow_ms=300)
    interaction = await mina.imagine(prompt="the last circle")
    await until(lambda: is_underway(served))
    async with asyncio.timeout(10):
        await served.bot.hear_no_more()
    assert not sandbox.connected
    assert served.bot.shard_count == 1  # as many as the sandbox recommends
    (job,) = await served.store.jobs.active()
    assert "the last circle" in text_of(await mina.message_of(interaction))
    assert job.message_id is not None
