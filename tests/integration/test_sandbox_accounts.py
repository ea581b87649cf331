"""The bot in a member's account: when groups exist, and the limits of its token."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from sandbox_tools import GLOBAL_COMMANDS, PAINT, MakeMember, Raw
from yarl import URL

from bot.sandbox.community import BOT_ID, GROUP, PEOPLE
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


BACK = "http://127.0.0.1:9/back"
ASKED = {"client_id": str(BOT_ID), "response_type": "code", "scope": "identify", "redirect_uri": BACK}


async def code_of(sandbox: Sandbox, session: aiohttp.ClientSession) -> str:
    sandbox.register(BACK)
    address = URL(f"{sandbox.address}/oauth2/authorize").with_query({**ASKED, "state": "a state"})
    async with session.post(address, data={"member": str(PEOPLE[0].id)}, allow_redirects=False) as answer:
        back = URL(answer.headers["Location"])
    assert back.query["state"] == "a state"
    return back.query["code"]


async def exchanged(sandbox: Sandbox, session: aiohttp.ClientSession, **changed: str) -> Any:
    form = {"grant_type": "authorization_code", "redirect_uri": BACK, "client_secret": "a-secret"}
    form |= {"client_id": str(BOT_ID), **changed}
    async with session.post(f"{sandbox.api_url}/oauth2/token", data=form) as answer:
        return await answer.json()


async def test_a_code_is_exchanged_once_for_a_token_of_the_members_account(lenient: Sandbox) -> None:
    async with aiohttp.ClientSession() as session:
        code = await code_of(lenient, session)
        given = await exchanged(lenient, session, code=code)
        headers = {"Authorization": f"Bearer {given['access_token']}"}
        async with session.get(f"{lenient.api_url}/users/@me", headers=headers) as answer:
            assert (await answer.json())["global_name"] == PEOPLE[0].global_name
        async with session.get(f"{lenient.api_url}/users/{PEOPLE[1].id}", headers=headers) as answer:
            assert answer.status == 401
        assert (await exchanged(lenient, session, code=code))["error"] == "invalid_grant"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"client_secret": "guess"}, "invalid_client"),
        ({"client_id": "7"}, "invalid_client"),
        ({"redirect_uri": "http://127.0.0.1:9/other"}, "invalid_grant"),
        ({"code": "guess"}, "invalid_grant"),
        ({"grant_type": "implicit"}, "unsupported_grant_type"),
    ],
)
async def test_a_wrong_exchange_gets_discords_error(
    lenient: Sandbox, changed: dict[str, str], error: str
) -> None:
    async with aiohttp.ClientSession() as session:
        code = await code_of(lenient, session)
        assert (await exchanged(lenient, session, **{"code": code, **changed}))["error"] == error


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "7"},
        {"redirect_uri": "https://elsewhere.example"},
        {"response_type": "token"},
        {"scope": "email"},
    ],
)
async def test_an_application_gets_no_login_that_it_has_not_registered(
    lenient: Sandbox, changed: dict[str, str]
) -> None:
    lenient.register(BACK)
    async with aiohttp.ClientSession() as session:
        address = URL(f"{lenient.address}/oauth2/authorize").with_query({**ASKED, **changed})
        async with session.get(address) as answer:
            assert answer.status == 400
    assert len(lenient.violations) == 1
