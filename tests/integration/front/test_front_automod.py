"""Discord's AutoMod rules on prompts: read from Discord, renewed by its events, switched by moderators."""

from __future__ import annotations

import pytest
from front_tools import refusal, text_of
from serving import Served, until

from bot.sandbox.client import Member
from bot.sandbox.community import BOT_ROLE_ID, CHANNELS, GUILD_ID, MODERATORS_ID
from bot.sandbox.permissions import OF_EVERYONE
from bot.sandbox.server import Sandbox

ROUTE = "/auto-moderation/rules"
REFUSED = "The AutoMod rule “{}” of this server does not allow this: change the words and ask again."
ART = next(channel.id for channel in CHANNELS if channel.name == "art")


@pytest.fixture
def without_right(lenient: Sandbox) -> None:
    """Take Manage Server from the bot, before it is told of the server."""
    roles = lenient._core.world.roles
    old = roles[BOT_ROLE_ID]
    roles[BOT_ROLE_ID] = type(old)(**{**vars(old), "permissions": int(OF_EVERYONE)})


async def told(served: Served, name: str) -> None:
    """Wait until the bot has heard of a change of this rule."""
    kept = served.bot.services.automod._servers[GUILD_ID]
    await until(lambda: _due(kept.due))


async def _due(due: float) -> bool:
    return due == 0.0


async def test_a_rule_of_automod_refuses_a_prompt_by_its_name(
    served: Served, ravi: Member, mina: Member
) -> None:
    assert await refusal(ravi, await ravi.imagine(prompt="neon CASINOS at night")) == REFUSED.format("Scams")
    negative = await ravi.imagine(prompt="a hill", negative_prompt="free nitro")
    assert await refusal(ravi, negative) == REFUSED.format("Scams")
    assert await served.store.jobs.active() == []
    await ravi.message_of(await ravi.imagine(prompt="nitro, free at last"))
    tried = await refusal(mina, await mina.use("rules try", prompt="a casino"))
    assert tried == "The AutoMod rule Scams refuses this prompt for casino."
    shown = await refusal(mina, await mina.use("rules show"))
    assert "What these rules mean for prompts:" in shown
    assert "**Scams** · 2 words and phrases" in shown
    assert "Discord's lists** · does not apply" in shown


async def test_discord_tells_of_changes_and_exempt_people_and_channels_are_let_in(
    served: Served, ravi: Member, mina: Member
) -> None:
    sandbox = served.sandbox
    await ravi.message_of(await ravi.imagine(prompt="a snail"))
    sandbox.set_automod_rule("Beasts", keywords=["snail*"], patterns=["(?=x)"], exempt_roles=[MODERATORS_ID])
    await told(served, "Beasts")
    assert await refusal(ravi, await ravi.imagine(prompt="two Snails")) == REFUSED.format("Beasts")
    await mina.message_of(await mina.imagine(prompt="two snails"))
    assert "1 pattern does not apply" in await refusal(mina, await mina.use("rules show"))
    sandbox.set_automod_rule("Beasts", keywords=["snail*"], exempt_channels=[ART])
    await told(served, "Beasts")
    await ravi.message_of(await ravi.imagine(prompt="three snails"))
    elsewhere = await ravi.imagine(prompt="three snails", channel="general")
    await ravi.wait_for_message(
        lambda message: REFUSED.format("Beasts") in text_of(message), channel="general"
    )
    assert elsewhere
    sandbox.remove_automod_rule("Beasts")
    await told(served, "Beasts")
    await ravi.message_of(await ravi.imagine(prompt="four snails", channel="general"), channel="general")


async def test_a_moderator_switches_them_off_and_on_and_reads_so(
    served: Served, ravi: Member, mina: Member
) -> None:
    assert "switched them off" in await refusal(mina, await mina.use("rules automod", use="off"))
    assert "switched them off" in await refusal(mina, await mina.use("rules show"))
    await ravi.message_of(await ravi.imagine(prompt="a casino"))
    assert "mean for prompts" in await refusal(mina, await mina.use("rules automod", use="on"))
    assert await refusal(ravi, await ravi.imagine(prompt="a casino")) == REFUSED.format("Scams")
    [on, off] = await served.store.moderation.entries(GUILD_ID, limit=9)
    assert (on.after, off.after) == (off.before, on.before)


async def test_a_failed_read_stops_no_painting_and_is_said(
    served: Served, ravi: Member, mina: Member
) -> None:
    await mina.misbehave(rest_5xx=9, on=ROUTE)
    await ravi.message_of(await ravi.imagine(prompt="a casino"))
    shown = await refusal(mina, await mina.use("rules show"))
    assert "Discord did not give these rules" in shown


async def test_without_the_right_discord_is_not_asked(
    without_right: None, served: Served, ravi: Member, mina: Member
) -> None:
    await ravi.message_of(await ravi.imagine(prompt="a casino"))
    assert "needs the permission Manage Server" in await refusal(mina, await mina.use("rules show"))
    assert served.sandbox.invalid_requests == 0
