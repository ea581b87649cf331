"""Message commands in the sandbox: registration, data, and rights."""

from __future__ import annotations

from typing import Any

import pytest
from sandbox_tools import (
    GLOBAL_COMMANDS,
    GUILD_COMMANDS,
    MESSAGES,
    FakeClock,
    Line,
    MakeMember,
    Raw,
)

from bot.sandbox.client import InteractionFailed, Member, RefusedByClient
from bot.sandbox.community import BOT_ID
from bot.sandbox.rules import Limits
from bot.sandbox.server import Sandbox

MESSAGE_COMMAND, USER_COMMAND = 3, 2
MENU = {"type": MESSAGE_COMMAND, "name": "Use This"}
GIF = b"GIF89a\x03\x00\x02\x00\x00\x00\x00;"


def menu(**changes: Any) -> dict[str, Any]:
    return {**MENU, **changes}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (menu(description="It uses this."), ("description",)),
        (menu(description_localizations={"ko": "설명"}), ("description_localizations",)),
        (menu(options=[{"type": 3, "name": "words", "description": "What"}]), ("options",)),
        (menu(name=""), ("name",)),
        (menu(name="n" * 33), ("name",)),
        (menu(name_localizations={"ko": "이" * 33}), ("name_localizations", "ko")),
        (menu(name_localizations={"ar": "استخدم"}), ("name_localizations", "ar")),
        (menu(type=USER_COMMAND, description="Of a person."), ("description",)),
    ],
)
async def test_a_malformed_menu_command_is_refused_and_logged(
    lenient: Sandbox, body: dict[str, Any], where: tuple[str, ...]
) -> None:
    async with Raw(lenient) as bot:
        answer = await bot.call("PUT", GLOBAL_COMMANDS, [body])
        assert (answer.status, answer.code) == (400, 50035)
        assert answer.error("0", *where)
    assert len(lenient.violations) == 1


async def test_a_name_may_have_capitals_and_spaces_and_that_of_another_kind(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        named = menu(name="Use This, Please!", name_localizations={"ko": "이 레시피 쓰기"})
        slash = {"name": "use", "description": "Use"}
        same = [named, menu(type=USER_COMMAND, name="use"), menu(name="use"), slash]
        answer = await bot.call("PUT", GLOBAL_COMMANDS, same)
        assert answer.status == 200
        assert [each["description"] for each in answer.body] == ["", "", "", "Use"]
        assert all("options" not in each for each in answer.body)


@pytest.mark.parametrize("kind", [USER_COMMAND, MESSAGE_COMMAND])
async def test_there_are_at_most_fifteen_of_each_kind(lenient: Sandbox, kind: int) -> None:
    fifteen = [menu(type=kind, name=f"Menu {number}") for number in range(15)]
    async with Raw(lenient) as bot:
        assert (await bot.call("PUT", GLOBAL_COMMANDS, [*fifteen, menu(type=kind)])).code == 50035
        assert (await bot.call("PUT", GLOBAL_COMMANDS, fifteen)).status == 200
        assert (await bot.call("POST", GLOBAL_COMMANDS, menu(type=kind))).code == 30032
        other = USER_COMMAND if kind == MESSAGE_COMMAND else MESSAGE_COMMAND
        assert (await bot.call("POST", GLOBAL_COMMANDS, menu(type=other))).status == 201


@pytest.fixture
async def ravi(sandbox: Sandbox, member: MakeMember) -> Member:
    async with Raw(sandbox) as bot:
        await bot.call("PUT", GLOBAL_COMMANDS, [MENU])
    return await member(sandbox, "Ravi")


async def listening(bot: Raw) -> Line:
    line = await bot.identify()
    await line.event("GUILD_CREATE")
    return line


async def test_a_message_command_carries_the_whole_message_without_the_intent(
    sandbox: Sandbox, ravi: Member, member: MakeMember
) -> None:
    mina = await member(sandbox)
    async with Raw(sandbox) as bot:
        line = await listening(bot)
        said = await mina.say("look at this", ("boat.gif", GIF), ("notes.txt", b"words"))
        heard = await line.event("MESSAGE_CREATE")
        assert (heard["content"], heard["attachments"]) == ("", [])
        read = await bot.call("GET", f"{MESSAGES}/{said['id']}")
        assert (read.body["content"], read.body["attachments"]) == ("", [])
        await ravi.menu(said, "Use This")
        asked = await line.event("INTERACTION_CREATE")
        data = asked["data"]
        assert (asked["type"], data["type"], data["target_id"]) == (2, MESSAGE_COMMAND, said["id"])
        assert asked["member"]["user"]["username"] == "ravi"
        target = data["resolved"]["messages"][said["id"]]
        assert (target["author"]["username"], target["content"]) == ("mina", "look at this")
        assert [file["filename"] for file in target["attachments"]] == ["boat.gif", "notes.txt"]
        async with bot.session.get(target["attachments"][0]["url"]) as served:
            assert await served.read() == GIF


async def test_a_message_to_the_bot_has_its_content_without_the_intent(
    sandbox: Sandbox, ravi: Member
) -> None:
    async with Raw(sandbox) as bot:
        line = await listening(bot)
        await ravi.say(f"hello <@{BOT_ID}>")
        assert (await line.event("MESSAGE_CREATE"))["content"] == f"hello <@{BOT_ID}>"


async def test_pictures_in_embeds_have_the_addresses_of_their_files_or_of_a_proxy(
    sandbox: Sandbox, ravi: Member
) -> None:
    async with Raw(sandbox) as bot:
        line = await listening(bot)
        embeds = [
            {"title": "own", "image": {"url": "attachment://boat.gif"}},
            {"title": "other", "thumbnail": {"url": "https://example.org/a.png"}},
        ]
        sent = await bot.call("POST", MESSAGES, {"embeds": embeds}, files={"boat.gif": GIF})
        await ravi.menu(sent.body, "Use This")
        data = (await line.event("INTERACTION_CREATE"))["data"]
        own, other = data["resolved"]["messages"][sent.body["id"]]["embeds"]
        async with bot.session.get(own["image"]["url"]) as served:
            assert await served.read() == GIF
        assert other["thumbnail"]["url"] == "https://example.org/a.png"
        assert other["thumbnail"]["proxy_url"].startswith(f"{sandbox.address}/external/")


async def test_only_what_is_registered_and_seen_and_allowed_can_be_chosen(
    sandbox: Sandbox, ravi: Member, member: MakeMember
) -> None:
    mina = await member(sandbox)
    async with Raw(sandbox) as bot:
        hidden = menu(name="Ban This", default_member_permissions=1 << 5)
        await bot.call("PUT", GUILD_COMMANDS, [hidden, menu(name="For Adults", nsfw=True)])
        said = await mina.say("hello")
        await mina.menu(said, "Ban This")
        with pytest.raises(RefusedByClient, match="no “Ban This” in the menu of a message; there are"):
            await ravi.menu(said, "Ban This")
        with pytest.raises(RefusedByClient, match="for adults"):
            await ravi.menu(said, "For Adults")
        sandbox.forbid_commands("art", "ravi")
        with pytest.raises(RefusedByClient, match="there are: none"):
            await ravi.menu(said, "Use This")
        sandbox.shut_out("art", "ravi")
        with pytest.raises(RefusedByClient, match="There is no message"):
            await ravi.menu(said, "Use This")


async def test_a_menu_that_is_not_answered_fails_and_is_a_violation(
    timed: Sandbox, clock: FakeClock, member: MakeMember
) -> None:
    mina = await member(timed)
    async with Raw(timed) as bot:
        await bot.call("PUT", GLOBAL_COMMANDS, [MENU])
        line = await listening(bot)
        interaction = await mina.menu(await mina.say("hello"), "Use This")
        await line.event("INTERACTION_CREATE")
        clock.advance(3.0)
        with pytest.raises(InteractionFailed, match="The application did not respond"):
            await mina.message_of(interaction)
    assert timed.violations == ["menu Use This: no acknowledgement within 3 s"]


async def test_members_write_within_discords_limits() -> None:
    async with Sandbox(limits=Limits(member=100)) as sandbox, Member(sandbox.address, "Ravi") as ravi:
        with pytest.raises(RefusedByClient, match="empty message"):
            await ravi.say(" ")
        with pytest.raises(RefusedByClient, match="2000 or fewer"):
            await ravi.say("x" * 2001)
        with pytest.raises(RefusedByClient, match=r"big\.png is too large: a file may have 100 bytes"):
            await ravi.say("", ("big.png", bytes(101)))
        assert await ravi.messages() == []
        assert sandbox.violations == []
