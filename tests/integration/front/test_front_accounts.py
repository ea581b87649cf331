"""The bot in a person's own account: in a group, and in a server that the bot is not in."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from front_tools import ephemeral, finished, job_of, queued, refusal, text_of
from serving import Served, serving, until

from bot.config import Config, DiscordConfig
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import GROUP, GUILD_ID
from bot.sandbox.server import Sandbox
from bot.store import Store

TAKEN_ALONG = Config(discord=DiscordConfig(user_install=True))


@pytest.fixture
async def along(sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member) -> AsyncIterator[Served]:
    """A user-installable bot; Ravi has installed it."""
    async with serving(sandbox, store, artifacts, TAKEN_ALONG) as served:
        await ravi.install()
        yield served


@pytest.fixture
async def group(along: Served, ravi: Member, omar: Member) -> str:
    """The group of which Ravi and Omar are members."""
    ravi.channel = omar.channel = GROUP.name or ""
    return ravi.channel


async def test_a_picture_is_painted_in_a_group_and_its_buttons_work_for_all_members(
    along: Served, group: str, ravi: Member, omar: Member
) -> None:
    job, message = await finished(along, ravi, "a boat")
    assert (job.origin.guild_id, job.origin.external) == (None, True)
    [seen] = [each for each in await omar.messages() if each["id"] == message["id"]]
    await omar.message_of(await omar.press(seen, "Again"))
    again = await job_of(along.store, "a boat")
    assert str(again.origin.user_id) == (await omar.state())["me"]["id"]
    assert again.origin.external


async def test_a_result_that_comes_after_the_tokens_end_is_sent_directly(
    along: Served, group: str, ravi: Member
) -> None:
    await queued(ravi, "a boat")
    along.sandbox.misbehave(expire_tokens=True)
    await along.paint((await job_of(along.store, "a boat")).id)

    async def told() -> bool:
        return any("a boat" in text_of(message) for message in await ravi.messages("dm"))

    await until(told)


async def test_a_server_without_the_bot_is_painted_in_and_its_jobs_stay_when_servers_are_counted(
    along: Served, ravi: Member
) -> None:
    along.sandbox.kick()
    job, message = await finished(along, ravi, "a boat")
    assert (job.origin.guild_id, job.origin.external) == (GUILD_ID, True)
    assert not ephemeral(message)
    assert GUILD_ID not in await along.store.erasure.servers()


async def test_where_the_bot_is_not_prompts_keep_to_the_messages_that_discord_takes(
    along: Served, ravi: Member
) -> None:
    along.sandbox.kick()
    told = await refusal(ravi, await ravi.imagine(prompt="{a, b, c, d, e, f} bird"))
    assert "make 6 prompts, and you may ask for 4 at once" in told
    form = await ravi.modal_of(await ravi.imagine(prompt="{a, b, c, d} bird"))
    await ravi.submit(form)
    for words in "abcd":
        await ravi.wait_for_message(lambda message, words=words: f"{words} bird" in text_of(message))


async def test_in_a_server_that_silences_external_apps_the_answer_is_private(
    along: Served, ravi: Member, omar: Member
) -> None:
    along.sandbox.kick()
    along.sandbox.silence_external_apps()
    job, message = await finished(along, ravi, "a boat")
    assert job.origin.private
    assert ephemeral(message)
    assert message["id"] not in [each["id"] for each in await omar.messages()]


async def test_without_the_setting_no_command_is_user_installable(served: Served, ravi: Member) -> None:
    for command in (await ravi.state())["commands"]:
        assert command["integration_types"] == [0]
        assert command["contexts"] == [0, 1]
