"""The bot in a member's account: when groups exist, and the limits of its token."""

from __future__ import annotations

from sandbox_tools import GLOBAL_COMMANDS, PAINT, MakeMember, Raw

from bot.sandbox.community import GROUP
from bot.sandbox.server import Sandbox

TAKEN_ALONG = {**PAINT, "integration_types": [0, 1], "contexts": [0, 1, 2]}


async def test_a_group_exists_if_commands_are_user_installable(sandbox: Sandbox, member: MakeMember) -> None:
    ravi, yuna = await member(sandbox, "Ravi"), await member(sandbox, "Yuna")
    async with Raw(sandbox) as bot:
        await bot.call("PUT", GLOBAL_COMMANDS, [PAINT])
        assert "weekend" not in [each.get("name") for each in (await ravi.state())["channels"]]
        await bot.call("PUT", GLOBAL_COMMANDS, [TAKEN_ALONG])
    assert "weekend" in [each.get("name") for each in (await ravi.state())["channels"]]
    assert "weekend" not in [each.get("name") for each in (await yuna.state())["channels"]]


async def test_the_bots_own_token_does_not_reach_a_group(lenient: Sandbox) -> None:
    async with Raw(lenient) as bot:
        assert (await bot.call("GET", f"/channels/{GROUP.id}/messages")).code == 50001
        assert (await bot.call("POST", f"/channels/{GROUP.id}/messages", {"content": "x"})).status == 403
