"""The front against the sandbox: commands, refusals and buttons, as members of a server see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from serving import Served, serving, until

from bot.artifacts import Artifacts
from bot.config import Config
from bot.errors import StoreUnavailable
from bot.jobs import Job, Origin, Recipe, State
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store

EPHEMERAL = 64
Message = dict[str, Any]


def text_of(message: Message) -> str:
    """All text that a message shows."""

    def texts(components: list[dict[str, Any]]) -> Iterator[str]:
        for component in components:
            if "content" in component:
                yield component["content"]
            yield from texts(component.get("components", []))

    return "\n".join([message["content"], *texts(message["components"])])


def ephemeral(message: Message) -> bool:
    return bool(message["flags"] & EPHEMERAL)


class FullDisk(Store):
    """A store whose database cannot be written any more."""

    async def enqueue(self, recipe: Recipe, origin: Origin, **_: object) -> Job:
        raise StoreUnavailable("The disk that holds the queue is full.")


class Broken(Store):
    """A store with a fault that nobody foresaw."""

    async def enqueue(self, recipe: Recipe, origin: Origin, **_: object) -> Job:
        raise ZeroDivisionError("a secret of the house")


@pytest.fixture(autouse=True)
def _discord_is_elsewhere(discord_address: Callable[[str, str], None]) -> None:
    """Put the real address back after each test."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3")
    yield store
    await store.close()


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(str(tmp_path / "artifacts"))


@pytest.fixture
async def served(sandbox: Sandbox, store: Store, artifacts: Artifacts) -> AsyncIterator[Served]:
    async with serving(sandbox, store, artifacts, Config()) as served:
        yield served


@pytest.fixture
async def people(sandbox: Sandbox) -> AsyncIterator[dict[str, Member]]:
    async with AsyncExitStack() as stack:
        names = ("Mina", "Ravi", "Yuna", "Omar")
        yield {name: await stack.enter_async_context(Member(sandbox.address, name)) for name in names}


@pytest.fixture
def mina(people: dict[str, Member]) -> Member:
    """She moderates."""
    return people["Mina"]


@pytest.fixture
def ravi(people: dict[str, Member]) -> Member:
    return people["Ravi"]


@pytest.fixture
def yuna(people: dict[str, Member]) -> Member:
    """She reads Korean."""
    return people["Yuna"]


@pytest.fixture
def omar(people: dict[str, Member]) -> Member:
    return people["Omar"]


async def queued(member: Member, prompt: str, **options: Any) -> Message:
    """Ask for a picture and wait for the message that says it is in the queue."""
    return await member.message_of(await member.imagine(prompt=prompt, **options))


async def refusal(member: Member, interaction: str) -> str:
    """The sentence that one member alone is told."""
    message = await member.wait_for_message(
        lambda message: ephemeral(message) and _answers(message, interaction) and bool(text_of(message))
    )
    return text_of(message)


def _answers(message: Message, interaction: str) -> bool:
    return bool((message.get("interaction_metadata") or {}).get("id") == interaction)


async def job_of(store: Store, prompt: str) -> Job:
    (job,) = [job for job in await store.active_jobs() if job.recipe.prompt == prompt]
    return job


async def told_its_message(store: Store, job_id: str, message: Message) -> bool:
    """Whether the job knows the message that shows it, for when its interaction's token is dead."""
    return (await store.job(job_id)).message_id == int(message["id"])


async def finished(served: Served, member: Member, prompt: str, **options: Any) -> tuple[Job, Message]:
    """A finished job and the message that shows its picture."""
    interaction = await member.imagine(prompt=prompt, **options)
    await member.message_of(interaction)
    job = await served.paint((await job_of(served.store, prompt)).id)
    return job, await member.message_of(interaction, lambda message: bool(message["attachments"]))


async def test_members_are_offered_the_four_commands(served: Served, ravi: Member) -> None:
    commands = (await ravi.state())["commands"]
    assert {command["name"] for command in commands} == {"imagine", "queue", "cancel", "help"}


async def test_a_second_start_registers_nothing_again(served: Served) -> None:
    assert not await served.bot.tree.register()


async def test_imagine_is_queued_with_what_was_asked_and_says_its_place(served: Served, ravi: Member) -> None:
    message = await queued(ravi, "a *red* circle", seed=5, steps=9, variants=2, size="1:1", sampler="euler")
    assert "a \\*red\\* circle" in text_of(message)
    assert "Queued, 1st" in text_of(message)
    job = await job_of(served.store, "a *red* circle")
    assert (job.recipe.seed, job.recipe.num_inference_steps, job.recipe.variants) == (5, 9, 2)
    await until(lambda: told_its_message(served.store, job.id, message))


async def test_a_place_is_said_in_the_readers_language(served: Served, ravi: Member, yuna: Member) -> None:
    await queued(ravi, "first")
    assert "대기 중, 2번째" in text_of(await queued(yuna, "second"))


async def test_a_private_picture_is_seen_by_its_owner_alone(
    served: Served, ravi: Member, omar: Member
) -> None:
    message = await queued(ravi, "a secret", private=True)
    assert ephemeral(message)
    assert not [seen for seen in await omar.messages() if "a secret" in text_of(seen)]


async def test_a_wrong_size_is_one_korean_sentence_for_the_korean_member_alone(
    served: Served, yuna: Member, ravi: Member
) -> None:
    told = await refusal(yuna, await yuna.imagine(prompt="a cat", size="enormous"))
    assert told.startswith("“enormous”은(는) 512x512 같은 크기도")
    assert "128x128 (1:1)" in told
    assert await ravi.messages() == []
    assert await served.store.active_jobs() == []


async def test_a_prompt_of_nothing_but_blanks_is_refused(served: Served, ravi: Member) -> None:
    told = await refusal(ravi, await ravi.imagine(prompt="   "))
    assert told == "The prompt is empty: write what the picture should show."


async def test_sizes_are_suggested(served: Served, ravi: Member) -> None:
    choices = await ravi.autocomplete("imagine", "size", "1:", prompt="x")
    assert choices == [{"name": "128x128 (1:1)", "value": "128x128"}]


async def test_a_full_queue_refuses_with_a_sentence_and_leaves_no_waiting_message(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member, omar: Member
) -> None:
    config = Config.parse({"queue": {"max_waiting_per_user": 1}})
    async with serving(sandbox, store, artifacts, config):
        await queued(ravi, "first")
        told = await refusal(ravi, await ravi.imagine(prompt="second"))
        assert told.startswith("At most 1 of your requests may wait")
        assert len(await omar.messages()) == 1


async def test_a_full_disk_is_one_sentence(
    tmp_path: Path, sandbox: Sandbox, artifacts: Artifacts, ravi: Member, caplog: pytest.LogCaptureFixture
) -> None:
    store = await FullDisk.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3")
    async with serving(sandbox, store, artifacts, Config()):
        told = await refusal(ravi, await ravi.imagine(prompt="a cat"))
    await store.close()
    assert told == "The queue cannot be reached right now: please ask again in a minute."
    assert "The disk that holds the queue is full." in caplog.text


async def test_a_fault_of_the_bot_shows_a_number_and_no_traceback(
    tmp_path: Path, sandbox: Sandbox, artifacts: Artifacts, ravi: Member, caplog: pytest.LogCaptureFixture
) -> None:
    store = await Broken.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3")
    async with serving(sandbox, store, artifacts, Config()):
        told = await refusal(ravi, await ravi.imagine(prompt="a cat"))
    await store.close()
    assert told.startswith("Something went wrong on the bot's side")
    assert "secret" not in told
    assert "ZeroDivisionError: a secret of the house" in caplog.text
    assert told.rstrip(".").rsplit(" ", 1)[-1] in caplog.text


async def test_the_queue_is_shown_in_order_to_the_asker_alone(
    served: Served, ravi: Member, yuna: Member, omar: Member
) -> None:
    await queued(ravi, "a boat")
    await queued(yuna, "a secret", private=True)
    message = await ravi.message_of(await ravi.use("queue"))
    lines = text_of(message).strip().splitlines()
    assert ephemeral(message)
    assert lines[0] == "### The queue of this server"
    assert lines[1].startswith("1\\. **you** · a boat · 1 picture")
    assert lines[2].startswith("2\\. <@")
    assert "*private*" in lines[2]
    assert "2 requests wait" in lines[3]
    assert not [seen for seen in await omar.messages() if ephemeral(seen)]


async def test_an_empty_queue_says_so_in_a_direct_message(served: Served, yuna: Member) -> None:
    message = await yuna.message_of(await yuna.use("queue", channel="dm"), channel="dm")
    assert "내 대기열" in text_of(message)
    assert "기다리는 그림도, 그리는 중인 그림도 없습니다." in text_of(message)


async def test_help_is_in_the_readers_language(served: Served, yuna: Member) -> None:
    message = await yuna.message_of(await yuna.use("help"))
    assert ephemeral(message)
    assert "**/그리기** 명령으로" in text_of(message)
    assert "`제외_프롬프트`" in text_of(message)


async def test_cancel_cancels_the_only_request_of_the_asker(
    served: Served, ravi: Member, omar: Member
) -> None:
    await queued(ravi, "a boat")
    await queued(omar, "a tree")
    told = await ravi.message_of(await ravi.use("cancel"))
    assert text_of(told) == "Cancelled: a boat"
    assert [job.recipe.prompt for job in await served.store.active_jobs()] == ["a tree"]
    await ravi.wait_for_message(lambda message: "Cancelled. Press Again" in text_of(message))


async def test_cancel_asks_which_of_several(served: Served, ravi: Member) -> None:
    await queued(ravi, "one")
    await queued(ravi, "two")
    told = await refusal(ravi, await ravi.use("cancel"))
    assert told == "You have 2 requests: choose the one to cancel, or all of them."
    choices = await ravi.autocomplete("cancel", "job", "")
    assert [choice["name"].rsplit(" · ", 1)[-1] for choice in choices] == ["All of mine", "one", "two"]
    told_of_all = await ravi.message_of(await ravi.use("cancel", job="all"))
    assert text_of(told_of_all) == "Cancelled 2 requests."
    assert await served.store.active_jobs() == []


async def test_cancel_without_any_request_says_so(served: Served, yuna: Member) -> None:
    told = await refusal(yuna, await yuna.use("cancel"))
    assert told == "기다리거나 그리는 중인 내 요청이 없습니다."


async def test_nobody_cancels_the_request_of_another_but_a_moderator(
    served: Served, ravi: Member, omar: Member, mina: Member
) -> None:
    await queued(ravi, "a boat")
    job = await job_of(served.store, "a boat")
    told = await refusal(omar, await omar.use("cancel", job=job.id))
    assert told == "Only the person who asked for this picture, or a moderator, can do that."
    assert await omar.autocomplete("cancel", "job", "") == []
    assert (await served.store.job(job.id)).state is State.WAITING

    assert [choice["value"] for choice in await mina.autocomplete("cancel", "job", "")] == [job.id]
    await mina.message_of(await mina.use("cancel", job=job.id))
    assert (await served.store.job(job.id)).state is State.CANCELLED


async def test_an_unknown_request_cannot_be_cancelled(served: Served, ravi: Member) -> None:
    told = await refusal(ravi, await ravi.use("cancel", job="nosuchjob"))
    assert told == "The bot no longer knows this picture."


async def test_the_cancel_button_is_for_the_owner(served: Served, ravi: Member, omar: Member) -> None:
    message = await queued(ravi, "a boat")
    job = await job_of(served.store, "a boat")
    assert (await refusal(omar, await omar.press(message, "Cancel"))).startswith("Only the person")
    assert (await served.store.job(job.id)).state is State.WAITING
    await ravi.press(message, "Cancel")
    await ravi.wait_for_message(lambda message: "Cancelled. Press Again" in text_of(message))
    assert (await served.store.job(job.id)).state is State.CANCELLED


async def test_again_paints_the_same_with_a_new_seed_for_whoever_presses(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a boat", seed=5, steps=9)
    answer = await omar.message_of(await omar.press(message, "Again"))
    again = await job_of(served.store, "a boat")
    assert answer["id"] != message["id"]
    assert "Queued, 1st" in text_of(answer)
    assert again.id != job.id
    assert again.recipe.seed != 5
    assert again.recipe.num_inference_steps == 9
    assert str(again.origin.user_id) == (await omar.state())["me"]["id"]


async def test_again_of_a_private_picture_is_private(served: Served, ravi: Member) -> None:
    _, message = await finished(served, ravi, "a secret", private=True)
    answer = await ravi.message_of(await ravi.press(message, "Again"))
    assert ephemeral(answer)


async def test_delete_removes_the_message_and_the_stored_picture_for_the_owner_alone(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a boat")
    name = job.images[0].artifact
    assert name is not None
    told = await refusal(omar, await omar.press(message, "Delete"))
    assert told.startswith("Only the person who asked for this picture")
    assert await served.artifacts.get(name)

    await ravi.press(message, "Delete")
    await ravi.wait_for(lambda messages: message["id"] not in {seen["id"] for seen in messages})
    deleted = await served.store.job(job.id)
    assert deleted.deleted_at is not None
    assert deleted.images[0].artifact is None
    with pytest.raises(Exception, match="is gone"):
        await served.artifacts.get(name)


async def test_a_moderator_deletes_the_result_of_another(served: Served, ravi: Member, mina: Member) -> None:
    job, message = await finished(served, ravi, "a boat")
    await mina.press(message, "Delete")
    await mina.wait_for(lambda messages: message["id"] not in {seen["id"] for seen in messages})
    assert (await served.store.job(job.id)).deleted_at is not None


async def test_buttons_work_after_a_restart(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    async with serving(sandbox, store, artifacts, Config()) as served:
        _, message = await finished(served, ravi, "a boat")
        waiting = await queued(ravi, "a tree")
    async with serving(sandbox, store, artifacts, Config()):
        await ravi.message_of(await ravi.press(message, "Again"))
        assert (await job_of(store, "a boat")).state is State.WAITING
        await ravi.press(message, "Delete")
        await ravi.wait_for(lambda messages: message["id"] not in {seen["id"] for seen in messages})
        await ravi.press(waiting, "Cancel")
        await ravi.wait_for_message(lambda message: "Cancelled. Press Again" in text_of(message))


async def test_every_answer_can_be_in_one_language(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    config = Config.parse({"discord": {"language": "ar"}})
    async with serving(sandbox, store, artifacts, config):
        assert "في الانتظار" in text_of(await queued(ravi, "a boat"))
        assert (await job_of(store, "a boat")).origin.locale == "ar"


async def test_commands_can_be_registered_in_one_server_alone(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    guild = int((await ravi.state())["guild"]["id"])
    config = Config.parse({"discord": {"guild_ids": [guild]}})
    async with serving(sandbox, store, artifacts, config) as served:
        assert len((await ravi.state())["commands"]) == 4
        assert "Queued" in text_of(await queued(ravi, "a boat"))
        assert not await served.bot.tree.register(served.bot.guilds_served[0])
