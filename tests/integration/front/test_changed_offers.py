"""A front follows the offers that workers publish; a worker's refusal is shown to its person only."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import discord
import pytest
from discord.app_commands import locale_str
from front_tools import ephemeral, job_of, queued, text_of
from results import labels
from serving import Served, serving, until

from bot.app.offers import Following
from bot.config import Config
from bot.domain.errors import CommandsRefused, DiscordUnavailable
from bot.domain.jobs import State
from bot.files.artifacts import Artifacts
from bot.front.client import JOIN_WAIT, REFUSED_WAIT
from bot.front.gateway.command_tree import make_command
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.sandbox.server import Sandbox
from bot.store import Store
from sdjax_engine.request import SAMPLER_NAMES, Sampler

SUITED = (Sampler.DDIM, Sampler.EULER)


async def samplers(member: Member) -> list[str]:
    (imagine,) = [each for each in (await member.state())["commands"] if each["name"] == "imagine"]
    (option,) = [each for each in imagine["options"] if each["name"] == "sampler"]
    return [choice["value"] for choice in option["choices"]]


@asynccontextmanager
async def following_offers(served: Served) -> AsyncIterator[None]:
    """Follow what workers publish, until the block ends."""
    following = Following(Config(), served.store.offers, served.bot.change_offers)
    await following.begin(served.bot.services.offers)
    task = asyncio.create_task(following.run(poll_seconds=0.01))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def following(served: Served) -> AsyncIterator[None]:
    """The front follows what workers publish."""
    async with following_offers(served):
        yield


async def test_the_first_worker_that_publishes_its_offer_narrows_the_commands(
    served: Served, following: None, mina: Member, sandbox: Sandbox
) -> None:
    assert await samplers(mina) == list(SAMPLER_NAMES)
    (offer,) = served.bot.services.offers
    await served.store.offers.publish([replace(offer, samplers=SUITED)])

    async def narrowed() -> bool:
        return await samplers(mina) == [sampler.value for sampler in SUITED]

    await until(narrowed)
    assert served.bot.services.offers == (replace(offer, samplers=SUITED),)
    await queued(mina, "a red circle", sampler="euler")


async def test_commands_that_discord_refuses_are_registered_later(
    served: Served, following: None, mina: Member, sandbox: Sandbox
) -> None:
    sandbox.misbehave(drop_requests=20, on="/commands")
    (offer,) = served.bot.services.offers
    await served.store.offers.publish([replace(offer, samplers=SUITED)])

    async def changed() -> bool:
        return served.bot.services.offers[0].samplers == SUITED

    await until(changed)
    sandbox.misbehave(drop_requests=0)

    async def narrowed() -> bool:
        return await samplers(mina) == [sampler.value for sampler in SUITED]

    await until(narrowed)


async def test_the_wait_before_another_attempt_is_the_one_that_discord_asks_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad_request: Any = SimpleNamespace(status=400, reason="Bad Request")
    too_many = discord.HTTPException(bad_request, {"code": 30034, "message": "Max number of daily creates"})
    for error, wait in (
        (discord.RateLimited(3600.5), 3600.5),
        (too_many, REFUSED_WAIT),
        (ConnectionError("cut"), 0.0),
    ):

        async def register(error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(served.bot.tree, "register", register)
        with pytest.raises(DiscordUnavailable) as caught:
            await served.bot.change_offers(served.bot.services.offers)
        assert caught.value.retry_after == wait


async def test_commands_that_discord_refuses_for_good_are_registered_again_with_other_offers_only(
    lenient: Sandbox,
    store: Store,
    artifacts: Artifacts,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(lenient, store, artifacts, Config()) as served, following_offers(served):
        refused = make_command(name="paint", description=locale_str("x" * 101), run=queued)
        monkeypatch.setattr("bot.front.features.commands", lambda *_offers, **_options: [refused])
        (offer,) = served.bot.services.offers
        for count, samplers in enumerate([SUITED, SUITED[:1]], start=1):
            await store.offers.publish([replace(offer, samplers=samplers)])

            async def logged(count: int = count) -> bool:
                return caplog.text.count("Discord refuses the commands: command 'paint', desc") == count

            await until(logged)
    assert len(lenient.violations) == 2
    assert "retried" not in caplog.text


async def test_a_refusal_in_a_server_that_the_bot_has_joined_is_one_sentence(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def register(_guild: discord.Object) -> None:
        raise CommandsRefused("Discord refuses the commands")

    monkeypatch.setattr(served.bot.tree, "register", register)
    monkeypatch.setattr(served.bot, "guilds_served", [discord.Object(GUILD_ID)])
    (guild,) = served.bot.guilds
    await served.bot.on_guild_join(guild)
    assert caplog.messages.count("Discord refuses the commands") == 1


async def test_the_registration_in_a_server_that_the_bot_has_joined_is_retried_after_the_wait(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors, waits = [discord.RateLimited(3600.5), ConnectionError("cut")], []

    async def register(_guild: discord.Object) -> None:
        if errors:
            raise errors.pop(0)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("bot.front.client.asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(served.bot.tree, "register", register)
    monkeypatch.setattr(served.bot, "guilds_served", [discord.Object(GUILD_ID)])
    (guild,) = served.bot.guilds
    await served.bot.on_guild_join(guild)
    assert (errors, waits) == ([], [3600.5, JOIN_WAIT])
    assert caplog.text.count(f"server {GUILD_ID} is retried: Discord did not take the commands: ") == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("get_guild", lambda _id: None), ("_leaving", True), ("is_closed", lambda: True)],
)
async def test_the_registration_is_not_retried_once_the_server_removed_the_bot_or_the_bot_leaves(
    served: Served, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    calls = []

    async def register(_guild: discord.Object) -> None:
        calls.append(1)
        raise ConnectionError("cut")

    async def sleep(_seconds: float) -> None:
        monkeypatch.setattr(served.bot, name, value)

    monkeypatch.setattr("bot.front.client.asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(served.bot.tree, "register", register)
    monkeypatch.setattr(served.bot, "guilds_served", [discord.Object(GUILD_ID)])
    (guild,) = served.bot.guilds
    await served.bot.on_guild_join(guild)
    assert calls == [1]


async def asked(member: Member) -> None:
    """Request a setting that a worker refuses."""
    await member.message_of(await member.imagine(prompt="a red circle", sampler="pndm"))


async def refuse(served: Served) -> None:
    """Fail the image like a worker whose checkpoint does not suit the sampler."""
    (claim,) = await served.store.leases.claim("test", limit=1, ttl=60.0)
    await served.store.leases.fail(claim, failure="unsuited_sampler: ddim, euler")


async def test_a_refusal_by_a_worker_is_shown_to_its_person_only_and_has_no_again_button(
    served: Served, mina: Member, ravi: Member
) -> None:
    await asked(mina)
    await refuse(served)
    message = await mina.wait_for_message(lambda message: ephemeral(message) and bool(text_of(message)))
    assert "does not suit" in text_of(message)
    assert labels(message) == ["Remix", "Delete"]

    async def gone() -> bool:
        return await ravi.messages() == []

    await until(gone)
    assert [each["id"] for each in await mina.messages()] == [message["id"]]


async def test_a_refusal_is_shown_although_the_answer_to_the_deletion_was_lost(
    served: Served, mina: Member, sandbox: Sandbox
) -> None:
    await asked(mina)
    job = await job_of(served.store, "a red circle")
    sandbox.misbehave(lose_answers=1, on=f"/messages/{job.message_id}")
    await refuse(served)
    await mina.wait_for_message(lambda message: ephemeral(message) and "does not suit" in text_of(message))


async def test_a_refusal_after_the_tokens_end_is_shown_in_the_message(
    served: Served, mina: Member, ravi: Member, sandbox: Sandbox
) -> None:
    await asked(mina)
    await mina.misbehave(expire_tokens=True)
    await refuse(served)
    message = await ravi.wait_for_message(lambda message: "does not suit" in text_of(message))
    assert not ephemeral(message)
    assert labels(message) == ["Remix", "Delete"]


async def test_a_front_takes_another_configuration_while_it_runs(served: Served, mina: Member) -> None:
    bot = served.bot
    text = """
        [discord]
        language = "ko"
        [[models]]
        loras = { ink = "ink.safetensors" }
        licence = "OpenRAIL"
        [queue]
        max_waiting_per_user = 1
        [limits]
        requests_per_minute = 0
        [pictures]
        waiting_files = 2
        """
    config = Config.parse(tomllib.loads(text))
    following = Following(Config(), served.store.offers, bot.change_offers)
    bot.change(config, None)
    await following.reconfigure(config)
    assert bot.services.offers == (config.models[0].offer,)
    (imagine,) = [each for each in (await mina.state())["commands"] if each["name"] == "imagine"]
    assert "lora" in [option["name"] for option in imagine["options"]]
    assert "라이선스: OpenRAIL" in text_of(await mina.message_of(await mina.use("help", topic="models")))
    await mina.message_of(await mina.imagine(prompt="a red circle", lora="ink"))
    refused = await mina.message_of(await mina.imagine(prompt="a blue circle"), ephemeral)
    assert "1" in text_of(refused)
    assert (await served.store.jobs.counts())[State.WAITING] == 1
