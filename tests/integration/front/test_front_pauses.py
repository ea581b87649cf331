"""A pause as waiting persons see it: its word in the message, and the picture after its end."""

from __future__ import annotations

from front_tools import Message, queued, text_of
from results import shows_result
from serving import Served, serving

from bot.config import Config, DiscordConfig
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import CHANNELS, GUILD_ID, PEOPLE
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope

SHARDS = 3  # with two, the first would have both the sandbox's server and direct messages
PAUSED = "Painting is paused here: back *soon*".replace("*", "\\*")
MODERATOR = By(actor_id=PEOPLE[0].id, guild_id=GUILD_ID, reason="back *soon*")
SERVER = Scope(guild_id=GUILD_ID)
ART = Scope(guild_id=GUILD_ID, channel_id=next(each.id for each in CHANNELS if each.name == "art"))


async def shows(member: Member, message: Message, words: str, channel: str = "art") -> Message:
    """Wait until this message shows these words."""
    return await member.wait_for_message(
        lambda one: one["id"] == message["id"] and words in text_of(one), channel=channel
    )


async def paint_all(served: Served) -> None:
    while await served.store.jobs.active():
        await served.paint_one()


async def painted(member: Member, message: Message) -> None:
    """Wait until this message shows a picture."""
    await member.wait_for_message(lambda one: one["id"] == message["id"] and shows_result(one))


async def test_waiting_messages_show_the_pauses_word_and_are_painted_after_its_end(
    served: Served, ravi: Member
) -> None:
    before = await queued(ravi, "a boat")
    await served.store.moderation.pause(ART, MODERATOR)
    await shows(ravi, before, PAUSED)
    during = await queued(ravi, "a tree")
    assert PAUSED in text_of(during)
    assert await served.store.leases.claim("test", limit=9, ttl=60.0) == []
    await served.store.moderation.resume(ART, MODERATOR)
    await shows(ravi, during, "Queued, 2nd")
    await paint_all(served)
    for message in (before, during):
        await painted(ravi, message)


async def test_a_request_of_a_paused_channel_can_be_cancelled_and_others_go_on(
    served: Served, ravi: Member, omar: Member
) -> None:
    await served.store.moderation.pause(ART, MODERATOR)
    message = await queued(ravi, "a boat")
    assert PAUSED in text_of(message)
    elsewhere = await omar.imagine(prompt="a tree", channel="general")
    assert "Queued, 1st" in text_of(await omar.message_of(elsewhere, channel="general"))
    listed = text_of(await ravi.message_of(await ravi.use("queue")))
    assert "a boat · 1 picture · paused" in listed
    await ravi.press(message, "Cancel")
    await shows(ravi, message, "Cancelled. Press Again")


async def test_two_fronts_show_and_apply_the_same_pause(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object, mina: Member
) -> None:
    first, second = (
        Config(discord=DiscordConfig(shard_count=SHARDS, shard_ids=(shard,)))
        for shard in (0, (GUILD_ID >> 22) % SHARDS)
    )
    async with (
        serving(sandbox, store, artifacts, first, name="first") as served,
        serving(sandbox, store, artifacts, second, name="second"),
    ):
        here = await queued(mina, "a boat")
        await store.moderation.pause(SERVER, MODERATOR)
        direct = await mina.imagine(prompt="a tree", channel="dm")
        assert "Queued, 1st" in text_of(await mina.message_of(direct, channel="dm"))
        await shows(mina, here, PAUSED)
        (claim,) = await store.leases.claim("test", limit=9, ttl=60.0)
        assert claim.request.prompt == "a tree"
        await store.leases.give_back(claim)
        await store.moderation.resume(SERVER, MODERATOR)
        await paint_all(served)
        await painted(mina, here)
        await mina.message_of(direct, shows_result, channel="dm")
