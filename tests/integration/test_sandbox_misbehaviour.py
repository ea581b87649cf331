"""Injected faults of the sandbox: a correct bot survives them, and they cause no violation."""

from __future__ import annotations

import time

import pytest
from sandbox_tools import ART, MESSAGES, MakeBot, MakeMember, Raw

from bot.sandbox.client import RefusedByClient
from bot.sandbox.server import Sandbox


async def test_a_real_client_waits_as_long_as_a_429_says(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    await log_in(sandbox)
    mina = await member(sandbox)
    sandbox.misbehave(rest_429=2, on="/messages/@original", retry_after=0.3)
    began = time.monotonic()
    message = await mina.message_of(await mina.imagine(prompt="a star"))
    assert message["attachments"]
    assert time.monotonic() - began >= 0.6


async def test_a_real_client_tries_again_after_a_5xx(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    await log_in(sandbox)
    mina = await member(sandbox)
    sandbox.misbehave(rest_5xx=1, on="/messages/@original")
    assert (await mina.message_of(await mina.imagine(prompt="a star")))["attachments"]


async def test_a_request_whose_answer_is_lost_is_executed(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        sandbox.misbehave(lose_answers=1, on=MESSAGES)
        body = {"content": "x", "nonce": "n", "enforce_nonce": True}
        assert (await bot.call("POST", MESSAGES, body)).status == 502
        again = await bot.call("POST", MESSAGES, body)
        assert [each["id"] for each in (await bot.call("GET", MESSAGES)).body] == [again.body["id"]]


async def test_a_fault_applies_only_to_the_named_paths(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        sandbox.misbehave(rest_429=1, on="/typing", rest_429_global=True)
        assert (await bot.call("GET", f"/channels/{ART}")).status == 200
        refused = await bot.call("POST", f"/channels/{ART}/typing")
        assert (refused.status, refused.body["global"], refused.headers["Via"]) == (429, True, "1.1 sandbox")
        assert (await bot.call("POST", f"/channels/{ART}/typing")).status == 204


async def test_slow_answers_arrive_late(sandbox: Sandbox) -> None:
    async with Raw(sandbox) as bot:
        sandbox.misbehave(slow_ms=200)
        began = time.monotonic()
        assert (await bot.call("GET", "/users/@me")).status == 200
        assert time.monotonic() - began >= 0.2


async def test_only_known_faults_can_be_injected(sandbox: Sandbox, member: MakeMember) -> None:
    mina = await member(sandbox)
    await mina.misbehave(rest_5xx=1, drop_gateway=True)
    async with Raw(sandbox) as bot:
        assert (await bot.call("GET", "/users/@me")).status == 502
        assert (await bot.call("GET", "/users/@me")).status == 200
    with pytest.raises(RefusedByClient, match="unknown misbehaviour rest_4: choose from"):
        await mina.misbehave(rest_4=1)
    with pytest.raises(RefusedByClient):
        await mina.misbehave(rest_429="many")
