"""Injected faults of the sandbox, which cause no violation."""

from __future__ import annotations

import time

from sandbox_tools import ART, MESSAGES, Raw

from bot.sandbox.server import Sandbox


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
