"""A blocked person reads one private sentence with the reason: `test_front_matrix` has each way of asking."""

from __future__ import annotations

from front_tools import ephemeral, queued, refusal, text_of
from serving import Served, serving

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope

MINA, RAVI, YUNA = PEOPLE[0].id, PEOPLE[1].id, PEOPLE[2].id
HERE = (
    "A moderator has blocked you from painting in this server. "  # where, then until when
    "The block has no end date: ask a moderator to remove it."
)
MODERATOR = By(actor_id=MINA, guild_id=GUILD_ID, reason="spam")
OPERATOR = By(actor_id=0, guild_id=0)


async def block(store: Store, user_id: int = RAVI, *, until: float | None = None, by: By = MODERATOR) -> None:
    await store.moderation.block(Scope(guild_id=GUILD_ID, user_id=user_id), by, until=until)


async def test_the_operator_blocks_everywhere(served: Served, ravi: Member, omar: Member) -> None:
    await served.store.moderation.block(Scope(user_id=RAVI), OPERATOR)
    for channel in ("art", "dm"):
        interaction = await ravi.imagine(prompt="a boat", channel=channel)
        told = await ravi.message_of(
            interaction, lambda one: bool(text_of(one)) and ephemeral(one), channel=channel
        )
        assert text_of(told) == "The bot's owner has blocked you from painting."
    await queued(omar, "a tree")
    await served.store.moderation.block(Scope(guild_id=GUILD_ID), OPERATOR)
    told = await refusal(omar, await omar.imagine(prompt="a boat"))
    assert told == "The bot's owner has blocked this server from painting."
    await omar.message_of(await omar.imagine(prompt="a tree", channel="dm"), channel="dm")


async def test_a_blocked_person_cannot_ask_without_end(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    limits = {"requests_per_minute": 2, "files_per_minute": 0}
    async with serving(sandbox, store, artifacts, Config.parse({"limits": limits})):
        await block(store)
        told = [await refusal(ravi, await ravi.imagine(prompt="a boat")) for _ in range(3)]
    assert [each.startswith(HERE) for each in told] == [True, True, False]
    assert told[2].startswith("You are going too fast")


async def test_a_blocked_member_can_still_see_cancel_and_delete_their_own_requests(
    served: Served, ravi: Member
) -> None:
    waiting = await queued(ravi, "a boat")
    await block(served.store)
    for command in ("queue", "history", "privacy", "help", "stats"):
        assert text_of(await ravi.message_of(await ravi.use(command)))
    await ravi.press(waiting, "Cancel")
    await ravi.wait_for_message(lambda message: "Cancelled. Press Again" in text_of(message))
