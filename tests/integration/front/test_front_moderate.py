"""/moderate: its acts, and the limits of a moderator's rights."""

from __future__ import annotations

import asyncio
from typing import Any

import discord
import pytest
from front_tools import (
    Message,
    ephemeral,
    finished,
    give_role,
    job_of,
    queued,
    refusal,
    text_of,
)
from results import shows_result
from serving import Served

from bot.domain.jobs import Job, State
from bot.files.erasure import forget
from bot.front.moderators import moderate
from bot.front.results.removal import remove_message
from bot.sandbox.client import Member, RefusedByClient
from bot.sandbox.community import BOT_ID, GUILD_ID, PEOPLE
from bot.sandbox.permissions import Permission
from bot.sandbox.server import Sandbox
from bot.store.moderation.policies import PolicyScope
from bot.store.rows.audit import Act, By, Entry

MINA, RAVI, YUNA, OMAR, WEI = (person.id for person in PEOPLE)


@pytest.fixture(autouse=True)
def _wei_moderates(lenient: Sandbox) -> None:
    """Let Wei, who is no administrator, moderate the server, and Omar one channel."""
    give_role(lenient, WEI, Permission.MANAGE_MESSAGES)
    lenient.appoint("art", "omar")


@pytest.fixture
async def wei(sandbox: Sandbox) -> Any:
    async with Member(sandbox.address, "Wei") as wei:
        yield wei


async def use(who: Member, name: str, /, **options: Any) -> Message:
    """The answer to a subcommand of /moderate."""
    return await who.message_of(await who.use(f"moderate {name}", **options))


def said(message: Message) -> str:
    return text_of(message).strip()


async def log(served: Served) -> list[Entry]:
    return await served.store.moderation.entries(GUILD_ID, limit=99)


async def test_a_moderator_blocks_a_member_who_is_refused_until_the_end_of_the_block(
    served: Served, wei: Member, ravi: Member
) -> None:
    await queued(ravi, "a boat")
    told = await use(wei, "block", member=str(RAVI), hours=2, reason="too much")
    assert ephemeral(told)
    (block,) = await served.store.moderation.in_force(GUILD_ID)
    assert block.until is not None
    assert block.until - block.at == pytest.approx(2 * 3600)
    assert said(told) == (
        f"<@{RAVI}> 不能再在此服务器请求绘图。 解除时间：<t:{int(block.until)}:R>。 "
        "其已提交的 1 个请求仍会绘制：用 **/管理 清除** 可以删除。"
    )
    assert (await refusal(ravi, await ravi.imagine(prompt="a tree"))) == (
        "A moderator has blocked you from painting in this server. "
        f"This ends <t:{int(block.until)}:R>. The reason: too much"
    )
    await use(wei, "unblock", member=str(RAVI))
    await queued(ravi, "a tree")
    assert [(entry.act, entry.actor_id, entry.subject_id) for entry in await log(served)] == [
        (Act.UNBLOCK, WEI, RAVI),
        (Act.BLOCK, WEI, RAVI),
    ]


async def test_moderators_cannot_block_themselves_bots_moderators_or_the_owner(
    served: Served, wei: Member, mina: Member
) -> None:
    for member, subject, wanted in (
        (mina, MINA, "You cannot block yourself"),
        (mina, BOT_ID, "A bot asks for no pictures"),
        (mina, WEI, "The owner and members with Manage Messages cannot be blocked"),
        (mina, OMAR, "The owner and members with Manage Messages cannot be blocked"),
        (wei, MINA, "服务器所有者或能管理消息的人无法被封禁"),
    ):
        interaction = await member.use("moderate block", member=str(subject))
        assert (await refusal(member, interaction)).startswith(wanted)
    assert await log(served) == []


async def test_a_missing_block_cannot_be_ended(served: Served, mina: Member) -> None:
    told = await refusal(mina, await mina.use("moderate unblock", member=str(RAVI)))
    assert told == "No moderator of this server has blocked this member: /moderate show shows who is blocked."


async def test_a_moderator_of_one_channel_can_pause_that_channel(
    served: Served, omar: Member, ravi: Member
) -> None:
    told = await use(omar, "pause", word="*tea*")
    assert not ephemeral(told)
    assert said(told) == (
        "Painting is paused here: \\*tea\\*\nWaiting requests are painted once the pause ends."
    )
    assert "Painting is paused here: \\*tea\\*" in text_of(await queued(ravi, "a boat"))
    with pytest.raises(RefusedByClient):
        await omar.use("moderate pause", channel="general")
    assert said(await use(omar, "resume")) == "Painting has resumed in this channel."
    job = await served.paint((await job_of(served.store, "a boat")).id)
    assert job.state is State.DONE
    assert [entry.act for entry in await log(served)] == [Act.RESUME, Act.PAUSE]


async def test_a_server_is_paused_and_resumed_and_a_missing_pause_is_reported(
    served: Served, mina: Member, ravi: Member
) -> None:
    told = await use(mina, "pause", where="server")
    assert said(told).startswith("Painting is paused in the whole server.\n")
    elsewhere = await ravi.message_of(
        await ravi.imagine(prompt="a boat", channel="general"), channel="general"
    )
    assert "Painting is paused here." in text_of(elsewhere)
    told = await refusal(mina, await mina.use("moderate resume"))
    assert told == "Painting is not paused there: /moderate show shows where it is."
    assert said(await use(mina, "resume", where="server")) == "Painting has resumed in this server."
    assert len([one for one in await ravi.messages() if ephemeral(one)]) == 0


def is_done(message: Message) -> bool:
    return any(words in text_of(message) for words in ("was deleted.", "were deleted.", "个请求。"))


async def test_clear_deletes_only_the_members_requests_of_the_last_hour(
    served: Served, mina: Member, ravi: Member, omar: Member
) -> None:
    job, shown = await finished(served, ravi, "a boat", variants=2)
    await omar.message_of(await omar.press(shown, "U1"), shows_result)
    others, kept = await finished(served, omar, "a tree")
    waiting = await queued(ravi, "a hill")
    form = await mina.modal_of(await mina.use("moderate clear", member=str(RAVI)))
    assert f"This deletes 2 requests of <@{RAVI}>" in str(form)
    assert "Asked for in the last 60 min." in str(form)
    told = await mina.message_of(await mina.submit(form), is_done)
    assert said(told) == "2 requests were deleted."
    seen = {one["id"] for one in await omar.messages()}
    assert kept["id"] in seen
    assert not {shown["id"], waiting["id"]} & seen
    assert len([one for one in await omar.messages() if "a boat" in text_of(one)]) == 0
    assert (await served.store.jobs.get(job.id)).deleted_at is not None
    assert (await served.store.jobs.get(others.id)).deleted_at is None
    assert await served.store.jobs.active() == []
    (entry,) = await log(served)
    assert (entry.act, entry.actor_id, entry.subject_id) == (Act.CLEAR, MINA, RAVI)
    assert entry.after == {"requests": 2}
    told_now = await refusal(mina, await mina.use("moderate clear", member=str(RAVI)))
    assert told_now.startswith("This member has asked for nothing here in these hours")


async def test_a_clear_goes_on_where_the_member_erases_everything_meanwhile(
    served: Served, mina: Member, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(served, ravi, "a boat")
    await queued(ravi, "a tree")

    async def remove(client: discord.Client, job: Job) -> str | None:
        await forget(served.store.erasure, served.bot.services.files, user_id=RAVI)
        return await remove_message(client, job)

    monkeypatch.setattr(moderate, "remove_message", remove)
    form = await mina.modal_of(await mina.use("moderate clear", member=str(RAVI)))
    told = await mina.message_of(await mina.submit(form), is_done)
    assert said(told) == "0 requests were deleted."


async def test_a_stop_within_a_long_clear_says_how_many_requests_were_deleted(
    served: Served,
    mina: Member,
    ravi: Member,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for prompt in ("a boat", "a tree", "a hill", "a star"):
        await queued(ravi, prompt)
    removed, stops = [], list[asyncio.Task[None]]()

    async def remove(client: discord.Client, job: Job) -> str | None:
        removed.append(job.id)
        if len(removed) == 2:
            stops.append(asyncio.create_task(served.bot.hear_no_more()))
            await served.bot.services.open_interactions.ending.wait()
        return await remove_message(client, job)

    monkeypatch.setattr(moderate, "remove_message", remove)
    form = await mina.modal_of(await mina.use("moderate clear", member=str(RAVI)))
    told = await mina.message_of(await mina.submit(form), is_done)
    await asyncio.gather(*stops)
    assert said(told) == (
        "2 requests were deleted. The bot is being restarted: give the command again to delete the others."
    )
    assert len(await served.store.jobs.active()) == 2
    (entry,) = await log(served)
    assert entry.after == {"requests": 2}
    assert "Traceback" not in caplog.text


async def test_a_command_that_a_stop_cannot_wait_for_says_so(
    served: Served,
    mina: Member,
    ravi: Member,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await queued(ravi, "a boat")
    hangs = asyncio.Event()

    async def remove(_client: discord.Client, _job: Job) -> str | None:
        hangs.set()
        await asyncio.Event().wait()
        return None

    monkeypatch.setattr(moderate, "remove_message", remove)
    form = await mina.modal_of(await mina.use("moderate clear", member=str(RAVI)))
    sent = await mina.submit(form)
    await hangs.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await served.bot.hear_no_more()
    await mina.wait_for_message(
        lambda message: (
            "The bot is being restarted and could not finish this: try it again in a minute."
            in text_of(message)
        )
    )
    assert sent
    assert len(await served.store.jobs.active()) == 1
    assert "Traceback" not in caplog.text


async def test_a_pause_is_announced_in_the_language_of_the_place(served: Served, mina: Member) -> None:
    by = By(actor_id=MINA, guild_id=GUILD_ID)
    await served.store.policies.put(PolicyScope.SERVER, GUILD_ID, {"language": "ko"}, by)
    assert "일시 중지되었습니다" in said(await use(mina, "pause", where="server"))
    assert said(await use(mina, "resume", where="server")) == "이 서버에서 그리기를 다시 시작합니다."
