"""Application commands in the sandbox: registration by a bot, use by members."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sandbox_tools import GLOBAL_COMMANDS, GUILD_COMMANDS, PAINT, MakeMember, Raw

from bot.sandbox.client import InteractionFailed, Member, RefusedByClient
from bot.sandbox.server import Sandbox


def command(**changes: Any) -> dict[str, Any]:
    return {"name": "paint", "description": "Paint", **changes}


def option(kind: int = 3, **changes: Any) -> dict[str, Any]:
    return {"type": kind, "name": "words", "description": "What", **changes}


def fifty_choices(**names: Any) -> dict[str, Any]:
    """A command of fifty choices, each with a value of 100 characters."""
    choices = [{**names, "value": f"{number:0100}"} for number in range(25)]
    return command(options=[option(name=name, choices=choices) for name in ("a", "b")])


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (command(name="Paint"), ("name",)),
        (command(name="pa int"), ("name",)),
        (command(name="p" * 33), ("name",)),
        (command(name=None), ("name",)),
        (command(description=""), ("description",)),
        (command(description="d" * 101), ("description",)),
        (command(name_localizations={"ar": "ارسم"}), ("name_localizations", "ar")),
        (command(name_localizations={"ko": "그려 줘"}), ("name_localizations", "ko")),
        (command(options=[option(), option()]), ("options", "1", "name")),
        (command(options=[option(), option(name="b", required=True)]), ("options", "1")),
        (command(options=[option(name=f"o{n}") for n in range(26)]), ("options",)),
        (command(options=[option(12)]), ("options", "0", "type")),
        (command(options=[option(1), option(3, name="b")]), ("options",)),
        (
            command(options=[option(choices=[{"name": "a", "value": 1}])]),
            ("options", "0", "choices", "0", "value"),
        ),
        (
            command(options=[option(choices=[{"name": "a", "value": "a"}], autocomplete=True)]),
            ("options", "0"),
        ),
        (
            command(options=[option(choices=[{"name": str(n), "value": str(n)} for n in range(26)])]),
            ("options", "0", "choices"),
        ),
        (command(options=[option(4, min_value=3, max_value=2)]), ("options", "0", "min_value")),
        (command(options=[option(3, max_length=6001)]), ("options", "0", "max_length")),
        (command(options=[option(5, min_value=1)]), ("options", "0")),
        (fifty_choices(name="n" * 100), ()),
        (fifty_choices(name="n", name_localizations={"ko": "n" * 100}), ()),
    ],
)
async def test_a_malformed_command_is_refused_and_logged(
    lenient: Sandbox, body: dict[str, Any], where: tuple[str, ...]
) -> None:
    async with Raw(lenient) as bot:
        answer = await bot.call("PUT", GLOBAL_COMMANDS, [body])
        assert (answer.status, answer.code) == (400, 50035)
        assert answer.error("0", *where)
        assert (await bot.call("GET", GLOBAL_COMMANDS)).body == []
    assert len(lenient.violations) == 1


@pytest.mark.parametrize("name", ["paint", "그리기", "画画", "ارسم", "चित्र", "it's-a_1"])
async def test_a_name_of_any_script_is_taken(sandbox: Sandbox, name: str) -> None:
    async with Raw(sandbox) as bot:
        assert (await bot.call("POST", GLOBAL_COMMANDS, command(name=name))).status == 201


async def test_names_are_unique_and_at_most_a_hundred(lenient: Sandbox) -> None:
    async with Raw(lenient) as bot:
        twice = await bot.call("PUT", GLOBAL_COMMANDS, [PAINT, PAINT])
        assert twice.error("1", "name") == "APPLICATION_COMMANDS_DUPLICATE_NAME"
        many = await bot.call("PUT", GLOBAL_COMMANDS, [command(name=f"c{n}") for n in range(101)])
        assert many.code == 50035


async def test_the_number_of_command_creations_per_day_is_limited(lenient: Sandbox) -> None:
    async with Raw(lenient) as bot:
        for start in (0, 100):
            commands = [command(name=f"c{n}") for n in range(start, start + 100)]
            assert (await bot.call("PUT", GLOBAL_COMMANDS, commands)).status == 200
        assert (await bot.call("PUT", GLOBAL_COMMANDS, commands)).status == 200
        assert (await bot.call("PUT", GLOBAL_COMMANDS, [PAINT])).code == 30034


async def test_unknown_and_misplaced_fields_are_logged(lenient: Sandbox) -> None:
    async with Raw(lenient) as bot:
        odd = command(options=[option(requird=True)], contexts=[0])
        assert (await bot.call("PUT", GUILD_COMMANDS, [odd])).status == 200
    assert lenient.violations == [
        "application command: unknown field 0.options.0.requird",
        "application command: contexts in a command of one server",
    ]


@pytest.mark.parametrize("scope", [GLOBAL_COMMANDS, GUILD_COMMANDS])
async def test_commands_are_created_read_changed_and_deleted(sandbox: Sandbox, scope: str) -> None:
    async with Raw(sandbox) as bot:
        made = await bot.call("POST", scope, {**PAINT, "name_localizations": {"ko": "그리기"}})
        assert made.status == 201
        one = f"{scope}/{made.body['id']}"
        assert (await bot.call("GET", one)).body == made.body
        changed = await bot.call("PATCH", one, {"description": "Draw"})
        assert (changed.body["description"], changed.body["options"]) == ("Draw", made.body["options"])
        assert changed.body["version"] != made.body["version"]
        replaced = await bot.call("POST", scope, PAINT)
        assert (replaced.status, replaced.body["id"]) == (200, made.body["id"])
        assert (await bot.call("DELETE", one)).status == 204


async def test_a_bulk_put_keeps_ids_and_deletes_missing_commands(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        before = (await bot.call("PUT", GLOBAL_COMMANDS, [PAINT, command(name="queue")])).body
        after = (await bot.call("PUT", GLOBAL_COMMANDS, [PAINT])).body
        assert [each["id"] for each in after] == [before[0]["id"]]
        assert after[0]["version"] == before[0]["version"]
        plain = (await bot.call("GET", GLOBAL_COMMANDS)).body
        assert "name_localizations" not in plain[0]
        full = (await bot.call("GET", f"{GLOBAL_COMMANDS}?with_localizations=true")).body
        assert full[0]["name_localizations"] is None


async def test_an_unknown_command_or_application_is_refused(lenient: Sandbox) -> None:
    async with Raw(lenient) as bot:
        assert (await bot.call("GET", f"{GLOBAL_COMMANDS}/1")).code == 10063
        assert (await bot.call("GET", "/applications/1/commands")).status == 403


OPTIONS = [
    option(name="prompt", required=True, max_length=10),
    option(4, name="variants", min_value=1, max_value=9),
    option(10, name="guidance", max_value=30),
    option(name="sampler", choices=[{"name": "DDIM", "value": "ddim"}]),
    option(5, name="private"),
    option(6, name="who"),
    option(11, name="start"),
    option(name="size", autocomplete=True),
]


@pytest.fixture
async def mina(sandbox: Sandbox, member: MakeMember) -> Member:
    async with Raw(sandbox) as bot:
        await bot.call("PUT", GLOBAL_COMMANDS, [command(options=OPTIONS)])
    return await member(sandbox)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "prompt: this option is required"),
        ({"prompt": "x" * 11}, "prompt: must be between 0 and 10 characters"),
        ({"prompt": "x", "variants": 10}, "variants: must be between 1 and 9"),
        ({"prompt": "x", "variants": "two"}, "variants: must be a whole number"),
        ({"prompt": "x", "guidance": "nan"}, "guidance: must be a number"),
        ({"prompt": "x", "sampler": "heun"}, "sampler: choose one of ddim"),
        ({"prompt": "x", "private": "yes"}, "private: must be true or false"),
        ({"prompt": "x", "who": "nobody"}, "who: choose somebody"),
        ({"prompt": "x", "start": "file"}, "start: must be a file"),
        ({"prompt": "x", "color": "red"}, "There is no option color"),
    ],
)
async def test_the_client_does_not_send_impossible_options(
    mina: Member, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(RefusedByClient, match=said):
        await mina.use("paint", **options)


async def test_the_client_knows_only_registered_commands_and_existing_channels(mina: Member) -> None:
    with pytest.raises(RefusedByClient, match="There is no command /draw; there are: /paint"):
        await mina.use("draw")
    with pytest.raises(RefusedByClient, match="There is no channel attic"):
        await mina.use("paint", channel="attic", prompt="x")


async def test_commands_are_hidden_without_the_permission_and_outside_age_restricted_channels(
    sandbox: Sandbox, member: MakeMember
) -> None:
    mina, ravi = await member(sandbox), await member(sandbox, "Ravi")
    async with Raw(sandbox) as bot:
        hidden = command(name="ban", default_member_permissions=1 << 5)
        await bot.call("PUT", GLOBAL_COMMANDS, [hidden, command(name="nude", nsfw=True)])
    offered = [(await who.state())["commands"] for who in (mina, ravi)]
    assert [{each["name"] for each in some if 0 in each["offered_in"]} for some in offered] == [
        {"ban", "nude"},
        {"nude"},
    ]
    assert [each["offered_in"] for each in offered[1] if each["name"] == "ban"] == [[1]]
    with pytest.raises(RefusedByClient, match="no command /ban"):
        await ravi.use("ban")
    with pytest.raises(RefusedByClient, match="for adults"):
        await ravi.use("nude")
    await ravi.use("nude", channel="nsfw-art")


async def test_suggestions_are_limited_and_missing_ones_are_an_error(
    lenient: Sandbox, member: MakeMember
) -> None:
    mina = await member(lenient)
    async with Raw(lenient) as bot:
        await bot.call("PUT", GLOBAL_COMMANDS, [command(options=OPTIONS)])
        line = await bot.identify()
        await line.event("GUILD_CREATE")
        asking = asyncio.create_task(mina.autocomplete("paint", "size", "12"))
        asked = await line.event("INTERACTION_CREATE")
        focused = next(each for each in asked["data"]["options"] if each.get("focused"))
        assert (focused["name"], focused["value"]) == ("size", "12")
        path = f"/interactions/{asked['id']}/{asked['token']}/callback"
        choices = [{"name": str(number), "value": str(number)} for number in range(26)]
        refused = await bot.call("POST", path, {"type": 8, "data": {"choices": choices}})
        assert refused.error("data", "choices") == "BASE_TYPE_MAX_LENGTH"
        assert (await bot.call("POST", path, {"type": 8, "data": {"choices": choices[:2]}})).status == 204
        assert [each["value"] for each in await asking] == ["0", "1"]
        with pytest.raises(InteractionFailed, match="Loading options failed"):
            await mina.autocomplete("paint", "size", "x")
    assert len(lenient.violations) == 2
