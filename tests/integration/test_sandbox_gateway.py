"""The sandbox's gateway keeps Discord's protocol, for clients that keep it and for those that do not."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest
from sandbox_tools import ART, FakeClock, MakeMember, Raw
from yarl import URL

from bot.sandbox.community import BOT_ID, GUILD_ID, PEOPLE
from bot.sandbox.objects import IS_SPOILER_CHANNEL
from bot.sandbox.server import Sandbox

INVALID_SESSION, HEARTBEAT, RESUME, RECONNECT = 9, 1, 6, 7


async def test_ready_says_where_to_resume_and_the_server_follows(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        line = await bot.identify()
        ready = await line.event("READY")
        assert ready["resume_gateway_url"] == sandbox.gateway_url
        assert ready["guilds"] == [{"id": str(GUILD_ID), "unavailable": True}]
        guild = await line.event("GUILD_CREATE")
        assert [channel["name"] for channel in guild["channels"]] == ["general", "art", "nsfw-art", "mods"]


async def test_a_wrong_token_is_refused_without_a_violation(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        assert await (await bot.identify(token="wrong-token")).close_code() == 4004
        assert (await bot.call("GET", "/users/@me", token="Bot wrong-token")).status == 401


async def test_only_its_own_token_opens_a_sandbox() -> None:
    async with Sandbox(token="of-its-own") as sandbox, Raw(sandbox) as bot:
        assert await (await bot.identify(token="a-token")).close_code() == 4004
        assert (await bot.call("GET", "/users/@me", token="Bot a-token")).status == 401
        assert (await bot.call("GET", "/users/@me", token=f"Bot {sandbox.token}")).status == 200


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"intents": -1}, 4013, "intents -1"),
        ({"intents": 1 << 15}, 4014, "privileged intents"),
        ({"shard": [2, 2]}, 4010, "shard [2, 2]"),
        ({"shard": [-1, 2]}, 4010, "shard [-1, 2]"),
    ],
)
async def test_an_impossible_identify_is_refused(
    lenient: Sandbox, changes: dict[str, Any], code: int, said: str
) -> None:
    async with Raw(lenient) as bot:
        assert await (await bot.identify(**changes)).close_code() == code
    assert said in lenient.violations[0]


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (["{"], 4002),
        (["[]"], 4002),
        (['{"op": 1, "d": "' + "x" * 4096 + '"}'], 4002),
        (['{"op": 3, "d": {}}'], 4003),
        (["IDENTIFY", '{"op": 99, "d": {}}'], 4001),
        (["IDENTIFY", "IDENTIFY"], 4005),
    ],
    ids=["no JSON", "no object", "too long", "before IDENTIFY", "unknown opcode", "IDENTIFY twice"],
)
async def test_an_invalid_gateway_payload_closes_the_connection(
    lenient: Sandbox, frames: list[str], code: int
) -> None:
    async with Raw(lenient) as bot:
        line = await bot.connect()
        for frame in frames:
            await (line.identify() if frame == "IDENTIFY" else line.socket.send_str(frame))
        assert await line.close_code() == code
    assert f"closed with {code}" in lenient.violations[0]


async def test_more_than_120_events_a_minute_close_the_connection(timed: Sandbox, clock: FakeClock) -> None:
    async with Raw(timed) as bot:
        line = await bot.connect()
        for _ in range(120):
            await line.send(HEARTBEAT)
        for _ in range(120):
            assert (await line.receive())["op"] == 11
        clock.advance(61)
        for _ in range(121):
            await line.send(HEARTBEAT)
        assert await line.close_code() == 4008
    assert "over 120 events in 60 s" in timed.violations[0]


async def test_a_bot_receives_only_events_of_its_intents(sandbox: Sandbox, member: MakeMember) -> None:
    async with Raw(sandbox) as bot:
        line = await bot.identify(intents=1)
        await line.event("GUILD_CREATE")
        await bot.call("POST", f"/channels/{ART}/messages", {"content": "unheard"})
        await line.send(8, {"guild_id": str(GUILD_ID), "user_ids": str(BOT_ID), "nonce": "n"})
        assert (await line.receive())["t"] == "GUILD_MEMBERS_CHUNK"


async def test_shards_share_the_servers(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        owner = (GUILD_ID >> 22) % 2
        lines = [await bot.identify(shard=[number, 2]) for number in range(2)]
        ready = [await line.event("READY") for line in lines]
        assert [len(each["guilds"]) for each in ready] == [int(owner == 0), int(owner == 1)]
        assert sandbox.shards == {(0, 2), (1, 2)}


async def test_a_shard_receives_events_of_its_server_and_the_first_of_direct_messages(
    sandbox: Sandbox,
) -> None:
    owner = (GUILD_ID >> 22) % 3
    assert owner != 0
    async with Raw(sandbox) as bot:
        first, theirs = [
            await bot.identify(shard=[number, 3], intents=1 << 9 | 1 << 12) for number in (0, owner)
        ]
        await bot.call("POST", f"/channels/{ART}/messages", {"content": "to the server"})
        direct = (await bot.call("POST", "/users/@me/channels", {"recipient_id": str(PEOPLE[0].id)})).body[
            "id"
        ]
        await bot.call("POST", f"/channels/{direct}/messages", {"content": "to one"})
        assert (await theirs.event("MESSAGE_CREATE"))["content"] == "to the server"
        assert (await first.event("MESSAGE_CREATE"))["content"] == "to one"


async def test_the_bot_is_told_how_many_shards_to_have_and_how_many_sessions_it_has_left(
    sandbox: Sandbox,
) -> None:
    async with Raw(sandbox) as bot:
        limits = []
        for _ in range(2):
            told = (await bot.call("GET", "/gateway/bot")).body
            limits.append(told["session_start_limit"]["remaining"])
            await (await bot.identify()).event("READY")
    assert (told["shards"], told["session_start_limit"]["max_concurrency"]) == (1, 1)
    assert limits[0] - limits[1] == 1


async def test_a_bot_receives_events_of_changed_and_deleted_channels(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        line = await bot.identify()
        await line.event("GUILD_CREATE")
        sandbox.forbid("art")
        assert (await line.event("CHANNEL_UPDATE"))["permission_overwrites"][0]["type"] == 1
        sandbox.delete_channel("art")
        assert (await line.event("CHANNEL_DELETE"))["id"] == ART


async def test_a_spoiler_channel_has_its_flag_and_no_thread_and_no_channel_for_adults_can_be_one(
    sandbox: Sandbox,
) -> None:
    sandbox.open_thread("general", "aside")
    async with Raw(sandbox) as bot:
        line = await bot.identify()
        await line.event("GUILD_CREATE")
        sandbox.make_spoiler_channel("art")
        assert (await line.event("CHANNEL_UPDATE"))["flags"] == IS_SPOILER_CHANNEL
        sandbox.make_spoiler_channel("art", spoiler=False)
        assert (await line.event("CHANNEL_UPDATE"))["flags"] == 0
    for channel in ("nsfw-art", "aside", "weekend"):
        with pytest.raises(ValueError, match=f"{channel} cannot be a spoiler channel"):
            sandbox.make_spoiler_channel(channel)


async def test_a_bot_that_dies_in_the_handshake_leaves_no_traceback(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    url = URL(sandbox.gateway_url)
    upgrade = (
        f"GET {url.path}?v=10&encoding=json HTTP/1.1\r\nHost: {url.host}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    for _ in range(5):
        with socket.create_connection((url.host, url.port)) as dying:
            # Reset the connection at the close, without a handshake.
            dying.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            dying.sendall(upgrade.encode())
        async with Raw(sandbox) as bot:  # it is served after the dying connections
            await (await bot.identify()).event("READY")
    assert caplog.text == ""


async def test_a_resume_brings_every_missed_event_in_order(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        line = await bot.identify()
        session = (await line.event("READY"))["session_id"]
        await line.event("GUILD_CREATE")
        seen = line.sequence
        sandbox.misbehave(drop_gateway=True)
        for text in ("one", "two"):
            await bot.call("POST", f"/channels/{ART}/messages", {"content": text})
        line = await bot.connect()
        await line.send(RESUME, {"token": "a-token", "session_id": session, "seq": seen})
        missed = [await line.receive() for _ in range(3)]
        assert [each["t"] for each in missed] == ["MESSAGE_CREATE", "MESSAGE_CREATE", "RESUMED"]
        assert [each["d"].get("content") for each in missed[:2]] == ["one", "two"]
        assert [each["s"] for each in missed] == [seen + 1, seen + 2, seen + 3]


async def test_a_session_that_is_not_known_cannot_be_resumed(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        line = await bot.connect()
        await line.send(RESUME, {"token": "a-token", "session_id": "no such", "seq": 1})
        assert await line.receive() == {"op": INVALID_SESSION, "d": False, "s": None, "t": None}
        await line.identify()
        await line.event("READY")


async def test_the_sandbox_can_ask_for_a_reconnect_and_forget_sessions(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        line = await bot.identify()
        await line.event("GUILD_CREATE")
        sandbox.misbehave(reconnect=True, invalidate_session=True)
        assert [(await line.receive())["op"] for _ in range(2)] == [RECONNECT, INVALID_SESSION]
