"""The data of the sandbox's page: the server, the visible messages, and events."""

from __future__ import annotations

import asyncio
import gc
import warnings

import aiohttp
import pytest
from sandbox_tools import MESSAGES, MakeMember, Raw

from bot.sandbox.client import Member, RefusedByClient
from bot.sandbox.server import Sandbox


async def test_direct_messages_are_seen_by_their_recipient_alone(
    sandbox: Sandbox, member: MakeMember
) -> None:
    mina, ravi = await member(sandbox), await member(sandbox, "Ravi")
    async with Raw(sandbox) as bot:
        recipient = (await ravi.state())["me"]["id"]
        channel = (await bot.call("POST", "/users/@me/channels", {"recipient_id": recipient})).body["id"]
        await bot.call("POST", f"/channels/{channel}/messages", {"content": "for you"})
    assert [each["content"] for each in await ravi.messages("dm")] == ["for you"]
    assert channel in [each["id"] for each in (await ravi.state())["channels"]]
    assert channel not in [each["id"] for each in (await mina.state())["channels"]]
    with pytest.raises(RefusedByClient):
        await mina.messages(channel)


async def test_only_a_moderator_deletes_a_public_message(sandbox: Sandbox, member: MakeMember) -> None:
    mina, ravi = await member(sandbox), await member(sandbox, "Ravi")
    async with Raw(sandbox) as bot:
        sent = await bot.call("POST", MESSAGES, {"content": "x"})
    with pytest.raises(RefusedByClient, match="Only a moderator"):
        await ravi.delete(sent.body)
    await mina.delete(sent.body)
    assert await ravi.messages() == []


async def test_an_invalid_press_is_refused(sandbox: Sandbox, member: MakeMember) -> None:
    mina = await member(sandbox)
    options = [{"label": "a", "value": "a"}, {"label": "b", "value": "b"}]
    rows = [
        {
            "type": 1,
            "components": [{"type": 2, "style": 1, "label": "Off", "custom_id": "off", "disabled": True}],
        },
        {"type": 1, "components": [{"type": 3, "custom_id": "menu", "options": options}]},
    ]
    async with Raw(sandbox) as bot:
        sent = await bot.call("POST", MESSAGES, {"content": "x", "components": rows})
        for label, values in (("Off", []), ("menu", []), ("menu", ["c"]), ("menu", ["a", "b"]), ("none", [])):
            with pytest.raises(RefusedByClient):
                await mina.press(sent.body, label, values=values)
        line = await bot.identify()
        await line.event("GUILD_CREATE")
        await mina.press(sent.body, "menu", values=["b"])
        assert (await line.event("INTERACTION_CREATE"))["data"]["values"] == ["b"]


@pytest.mark.parametrize("body", ["{", "[]"])
async def test_a_body_that_is_no_object_is_refused_with_a_sentence(sandbox: Sandbox, body: str) -> None:
    url = f"{sandbox.address}/sandbox/command"
    async with aiohttp.ClientSession() as session, session.post(url, data=body) as answer:
        assert answer.status == 400
        assert (await answer.json())["errors"]


async def test_an_unknown_member_is_refused_everywhere(sandbox: Sandbox) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("state?member=x", "messages?member=x&channel=art", "events?member=x"):
            async with session.get(f"{sandbox.address}/sandbox/{path}") as answer:
                assert (await answer.json()) == {"errors": ["There is no member x."]}


async def test_pages_of_other_origins_cannot_act_for_members(sandbox: Sandbox) -> None:
    url, body = f"{sandbox.address}/sandbox/misbehave", {"slow_ms": 0}
    async with aiohttp.ClientSession() as session:
        for origin in ("https://example.org", "null", f"{sandbox.address}x", ":::"):
            async with session.post(url, json=body, headers={"Origin": origin}) as answer:
                assert answer.status == 403
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await session.ws_connect(
                    f"{sandbox.gateway_url}?v=10&encoding=json", headers={"Origin": origin}
                )
        async with session.post(url, json=body, headers={"Origin": sandbox.address}) as answer:
            assert answer.status == 200


async def test_an_id_of_thousands_of_digits_is_no_id(sandbox: Sandbox) -> None:
    digits, me = "9" * 5000, {"Authorization": f"Bot {sandbox.token}"}
    async with aiohttp.ClientSession(sandbox.address) as session:
        for path in (f"/attachments/1/{digits}/a.png", f"/api/v10/channels/{digits}"):
            async with session.get(path, headers=me) as answer:
                assert answer.status == 404
        for path, body in (("press", {"message": digits}), ("modal", {"interaction": digits})):
            async with session.post(f"/sandbox/{path}", json={"member": "mina", **body}) as answer:
                assert answer.status == 400


async def test_refused_and_cancelled_requests_leave_nothing_open(sandbox: Sandbox) -> None:
    asyncio.get_running_loop().set_debug(True)  # only in debug mode does aiohttp report every response

    async def visit() -> None:
        async with Member(sandbox.address, "Mina") as mina:
            await mina.state()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await Member(sandbox.address, "Nobody").__aenter__()
        for turns in range(40):  # cancelled at various points of the request
            visiting = asyncio.create_task(visit())
            for _ in range(turns):
                await asyncio.sleep(0)
            visiting.cancel()
            await asyncio.gather(visiting, return_exceptions=True)
            del visiting
        gc.collect()
    assert [str(each.message) for each in told] == []


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[", ""])
@pytest.mark.parametrize("path", ["/", "/sandbox/state", "/api/v10/gateway", "/gateway"])
async def test_a_request_for_another_host_is_refused(sandbox: Sandbox, host: str, path: str) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(sandbox.address + path, headers={"Host": host}) as answer,
    ):
        assert answer.status == 403
        assert answer.content_type == "application/json"


async def test_the_page_may_be_asked_for_by_the_name_localhost(sandbox: Sandbox) -> None:
    port = sandbox.address.rpartition(":")[2]
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{sandbox.address}/sandbox/state", headers={"Host": f"localhost:{port}"}) as answer,
    ):
        assert answer.status == 200
