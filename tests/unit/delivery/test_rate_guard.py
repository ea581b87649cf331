"""The cases in which the rate guard delays a request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import discord
import pytest
from stores import Clock

from bot.delivery.rate_guard import BAN_SECONDS, MAX_INVALID, WINDOW_SECONDS, RateGuard
from bot.delivery.refusals import DeliveryDelayed


def refused(status: int, **headers: str) -> discord.HTTPException:
    headers = headers or {"Via": "1.1 google"}
    response = cast("Any", SimpleNamespace(status=status, reason="", headers=headers))
    return discord.HTTPException(response, {"code": 0, "message": ""})


def test_no_request_is_made_before_a_long_wait_is_over() -> None:
    clock = Clock()
    rate_guard = RateGuard(clock=clock)
    rate_guard.check(by_token=False)
    rate_guard.note(discord.RateLimited(300.0))
    clock.now += 100
    rate_guard.check(by_token=True)
    with pytest.raises(DeliveryDelayed) as told:
        rate_guard.check(by_token=False)
    assert told.value.seconds == 200
    clock.now += 200
    rate_guard.check(by_token=False)


@pytest.mark.parametrize(("status", "counts"), [(401, True), (403, True), (429, True), (404, False)])
def test_too_many_refusals_stop_all_requests_for_discords_window(status: int, counts: bool) -> None:
    clock = Clock()
    rate_guard = RateGuard(clock=clock)
    for _ in range(MAX_INVALID - 1):
        rate_guard.note(refused(status))
    rate_guard.check(by_token=True)
    clock.now += WINDOW_SECONDS - 1
    rate_guard.note(refused(status))
    if not counts:
        rate_guard.check(by_token=True)
        return
    with pytest.raises(DeliveryDelayed) as told:
        rate_guard.check(by_token=True)
    assert told.value.seconds == 1
    clock.now += 1
    rate_guard.check(by_token=True)
    rate_guard.note(refused(status))
    rate_guard.check(by_token=True)


@pytest.mark.parametrize(
    ("header", "seconds"), [({"Retry-After": "900"}, 900), ({"Server": "x"}, BAN_SECONDS)]
)
def test_a_cloudflare_ban_stops_all_requests_until_its_end(header: dict[str, str], seconds: float) -> None:
    rate_guard = RateGuard(clock=Clock())
    rate_guard.note(refused(429))
    rate_guard.check(by_token=False)
    rate_guard.note(refused(429, **header))
    with pytest.raises(DeliveryDelayed) as told:
        rate_guard.check(by_token=True)
    assert told.value.seconds == seconds
