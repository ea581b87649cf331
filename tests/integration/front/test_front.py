"""/imagine against the sandbox: queued, refused, registered, in the reader's language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from front_tools import Message, ephemeral, job_of, queued, refusal, text_of
from serving import Served, serving, until

from bot.config import Config
from bot.domain.errors import ConfigurationError, StoreUnavailable
from bot.domain.jobs import Job, Origin, Recipe
from bot.files.artifacts import Artifacts
from bot.front.features import commands, menus
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.queue.jobs import Jobs


class FullDisk(Jobs):
    """The jobs of a store whose database can no longer be written."""

    async def enqueue(self, recipe: Recipe, origin: Origin, **_: object) -> Job:
        raise StoreUnavailable("The disk that holds the queue is full.")


class Restarting(Jobs):
    """The jobs of a store whose server fails after it stored a request, and then returns."""

    async def enqueue(self, recipe: Recipe, origin: Origin, **options: Any) -> Job:
        known = len(await self.active())
        job = await super().enqueue(recipe, origin, **options)
        if known == 0:
            raise StoreUnavailable("The server has closed the connection.")
        return job


class FaultyJobs(Jobs):
    """The jobs of a store with an unexpected error."""

    async def enqueue(self, recipe: Recipe, origin: Origin, **_: object) -> Job:
        raise ZeroDivisionError("a secret of the house")


async def store_with(kind: type[Jobs], folder: Path) -> Store:
    """A store whose jobs are of this kind."""
    store = await Store.open(f"sqlite+aiosqlite:///{folder}/queue.sqlite3")
    store.jobs = kind(store.shared)
    return store


async def told_its_message(store: Store, job_id: str, message: Message) -> bool:
    """Return whether the job has the id of its message, for edits after the token's end."""
    return (await store.jobs.get(job_id)).message_id == int(message["id"])


async def test_members_are_offered_every_command(served: Served, ravi: Member) -> None:
    commands = (await ravi.state())["commands"]
    assert {command["name"] for command in commands} == {
        "Use this recipe",
        "Paint from this picture",
        "Made by AI?",
        "Report this picture",
        "imagine",
        "limits",
        "queue",
        "history",
        "show",
        "cancel",
        "settings",
        "style",
        "wildcard",
        "privacy",
        "stats",
        "help",
    }


async def test_moderators_are_offered_their_commands_too(served: Served, mina: Member, ravi: Member) -> None:
    offered = [{command["name"] for command in (await who.state())["commands"]} for who in (mina, ravi)]
    theirs = {"rules", "moderate", "audit", "policy", "review", "whose", "known", "session"}
    assert offered[0] - offered[1] == {*theirs, "Whose picture is this?"}


async def test_imagine_is_queued_with_its_options_and_shows_its_place(served: Served, ravi: Member) -> None:
    message = await queued(ravi, "a *red* circle", seed=5, steps=9, variants=2, size="1:1", sampler="euler")
    assert "a \\*red\\* circle" in text_of(message)
    assert "Queued, 1st" in text_of(message)
    job = await job_of(served.store, "a *red* circle")
    assert (job.recipe.seed, job.recipe.num_inference_steps, job.recipe.variants) == (5, 9, 2)
    await until(lambda: told_its_message(served.store, job.id, message))


async def test_an_option_of_another_bot_in_the_prompt_gets_a_private_hint(
    served: Served, ravi: Member, omar: Member
) -> None:
    # There is one model, so that /imagine has no option `model` in place of the first flag.
    interaction = await ravi.imagine(prompt="a red circle --v 6 --ar 16:9")
    await ravi.wait_for_message(lambda message: ephemeral(message) and "**size**" in text_of(message))
    assert "--ar 16:9" in text_of(await ravi.message_of(interaction))
    assert not [seen for seen in await omar.messages() if "**size**" in text_of(seen)]


async def test_an_option_that_is_not_offered_gets_no_hint(served: Served, ravi: Member) -> None:
    message = await ravi.message_of(await ravi.imagine(prompt="a red circle --v 6"))
    await queued(ravi, "another")
    assert "--v 6" in text_of(message)
    assert not [seen for seen in await ravi.messages() if ephemeral(seen)]


async def test_a_deliberate_disconnection_is_not_counted_as_lost(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    await served.bot.hear_no_more()
    assert "lost the connection" not in caplog.text


async def test_a_private_picture_is_seen_by_its_owner_alone(
    served: Served, ravi: Member, omar: Member
) -> None:
    message = await queued(ravi, "a secret", private=True)
    assert ephemeral(message)
    assert not [seen for seen in await omar.messages() if "a secret" in text_of(seen)]


async def test_a_full_queue_refuses_with_a_sentence_and_leaves_no_waiting_message(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member, omar: Member
) -> None:
    config = Config.parse({"queue": {"max_waiting_per_user": 1}})
    async with serving(sandbox, store, artifacts, config):
        await queued(ravi, "first")
        told = await refusal(ravi, await ravi.imagine(prompt="second"))
        assert told.startswith("At most 1 of your pictures can wait")
        assert len(await omar.messages()) == 1


async def test_a_full_disk_is_one_sentence(
    tmp_path: Path, sandbox: Sandbox, artifacts: Artifacts, ravi: Member, caplog: pytest.LogCaptureFixture
) -> None:
    store = await store_with(FullDisk, tmp_path)
    async with serving(sandbox, store, artifacts, Config()):
        told = await refusal(ravi, await ravi.imagine(prompt="a cat"))
    await store.close()
    assert told == "The queue cannot be reached right now: please ask again in a minute."
    assert "The disk that holds the queue is full." in caplog.text


async def test_a_restarting_database_server_is_retried_and_nothing_is_queued_twice(
    tmp_path: Path, sandbox: Sandbox, artifacts: Artifacts, ravi: Member
) -> None:
    store = await store_with(Restarting, tmp_path)
    async with serving(sandbox, store, artifacts, Config()):
        assert "Queued, 1st" in text_of(await queued(ravi, "a cat"))
        assert len(await store.jobs.active()) == 1
    await store.close()


async def test_a_fault_of_the_bot_shows_a_number_and_no_traceback(
    tmp_path: Path, sandbox: Sandbox, artifacts: Artifacts, ravi: Member, caplog: pytest.LogCaptureFixture
) -> None:
    store = await store_with(FaultyJobs, tmp_path)
    async with serving(sandbox, store, artifacts, Config()):
        told = await refusal(ravi, await ravi.imagine(prompt="a cat"))
    await store.close()
    assert told.startswith("Something went wrong on the bot's side")
    assert "secret" not in told
    assert "ZeroDivisionError: a secret of the house" in caplog.text
    assert told.rstrip(".").rsplit(" ", 1)[-1] in caplog.text


async def test_every_answer_can_be_in_one_language(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    config = Config.parse({"discord": {"language": "ar"}})
    async with serving(sandbox, store, artifacts, config):
        assert "في الانتظار" in text_of(await queued(ravi, "a boat"))
        assert (await job_of(store, "a boat")).origin.locale == "ar"


async def test_a_configured_server_that_refuses_the_bot_does_not_block_the_others(
    lenient: Sandbox,
    store: Store,
    artifacts: Artifacts,
    discord_address: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = Config.parse({"discord": {"guild_ids": [GUILD_ID + 1, GUILD_ID]}})
    async with serving(lenient, store, artifacts, config) as served:
        assert not await served.bot.tree.register(served.bot.guilds_served[1])
    assert f"the bot is not a member of server {GUILD_ID + 1}" in caplog.text


async def test_a_start_without_any_accepting_server_is_an_error(
    lenient: Sandbox, store: Store, artifacts: Artifacts, discord_address: object
) -> None:
    config = Config.parse({"discord": {"guild_ids": [GUILD_ID + 1]}})
    with pytest.raises(ConfigurationError, match="is not a member of server"):
        async with serving(lenient, store, artifacts, config):
            pass


async def test_commands_can_be_registered_in_one_server_alone(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, mina: Member
) -> None:
    guild = int((await mina.state())["guild"]["id"])
    config = Config.parse({"discord": {"guild_ids": [guild]}})
    async with serving(sandbox, store, artifacts, config) as served:
        assert len((await mina.state())["commands"]) == len(commands(served.bot.services.offers)) + len(
            menus(served.bot.services.offers)
        )
        assert "Queued" in text_of(await queued(mina, "a boat"))
        assert not await served.bot.tree.register(served.bot.guilds_served[0])
