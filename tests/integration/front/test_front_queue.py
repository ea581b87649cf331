"""/queue, /cancel and /help, as members of a server see them."""

from __future__ import annotations

from front_tools import ephemeral, job_of, queued, refusal, text_of
from serving import Served, until

from bot.jobs import State
from bot.sandbox.client import Member


async def closed_to_somebody(served: Served, channel: str) -> bool:
    """Whether the bot has heard that a channel is closed to a member."""
    (guild,) = served.bot.guilds
    (place,) = [each for each in guild.text_channels if each.name == channel]
    return any(overwrite.view_channel is False for overwrite in place.overwrites.values())


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


async def test_words_from_a_channel_closed_to_the_reader_are_not_in_the_queue(
    served: Served, ravi: Member, omar: Member
) -> None:
    await queued(ravi, "a surprise")
    assert "a surprise" in text_of(
        await omar.message_of(await omar.use("queue", channel="general"), channel="general")
    )
    served.sandbox.shut_out("art", "omar")
    await until(lambda: closed_to_somebody(served, "art"))
    lines = text_of(await omar.message_of(await omar.use("queue", channel="general"), channel="general"))
    assert "a surprise" not in lines
    assert "*private*" in lines


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
    told_of_all = await ravi.message_of(await ravi.use("cancel", job="All"))
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


async def test_who_moderates_one_channel_has_no_say_in_another(
    served: Served, ravi: Member, omar: Member
) -> None:
    served.sandbox.appoint("general", "omar")
    await queued(ravi, "a boat")
    job = await job_of(served.store, "a boat")
    assert await omar.autocomplete("cancel", "job", "", channel="general") == []
    interaction = await omar.use("cancel", channel="general", job=job.id)
    message = await omar.message_of(interaction, channel="general")
    assert text_of(message).startswith("Only the person who asked")
    served.sandbox.appoint("art", "omar")
    await omar.message_of(await omar.use("cancel", job=job.id))
    assert (await served.store.job(job.id)).state is State.CANCELLED


async def test_an_unknown_request_cannot_be_cancelled(served: Served, ravi: Member) -> None:
    told = await refusal(ravi, await ravi.use("cancel", job="nosuchjob"))
    assert told == "The bot no longer knows this picture."
