"""The cases in which the rate guard delays a request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import discord
import pytest
from stores import Clock

from bot.delivery.discord_requests import BAN_SECONDS, MAX_INVALID, WINDOW_SECONDS, RateGuard
from bot.delivery.refusals import DeliveryDelayed, Refusal, Refused


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


@pytest.mark.parametrize(
    ("error", "seconds", "said"),
    [
        (refused(503), 0.0, "503"),
        (discord.RateLimited(7.0), 7.0, "7.00"),
        (OSError("no route"), 0.0, "Discord cannot be reached: no route"),
    ],
)
def test_errors_that_pass_delay_the_delivery(error: Exception, seconds: float, said: str) -> None:
    with pytest.raises(DeliveryDelayed, match=said) as told, RateGuard(clock=Clock()).request(by_token=False):
        raise error
    assert told.value.seconds == seconds
    assert told.value.__cause__ is error


def test_a_refusal_is_translated_and_other_errors_stay() -> None:
    guard, error = RateGuard(clock=Clock()), refused(404)
    with pytest.raises(Refused) as told, guard.request(by_token=True):
        raise error
    assert (told.value.refusal, told.value.limit, told.value.__cause__) == (Refusal.DEAD_TOKEN, 0, error)
    with pytest.raises(ZeroDivisionError), guard.request(by_token=True):
        raise ZeroDivisionError


def test_the_first_window_is_as_long_and_has_as_many_refusals_as_every_other() -> None:
    clock = Clock()
    clock.now = 0.0
    guard = RateGuard(clock=clock)
    guard.check(by_token=False)
    for _ in range(MAX_INVALID - 1):
        guard.note(refused(403))
    guard.check(by_token=True)
    guard.note(refused(403))
    with pytest.raises(DeliveryDelayed) as told:
        guard.check(by_token=True)
    assert told.value.seconds == WINDOW_SECONDS


def test_a_shorter_wait_ends_no_longer_one() -> None:
    clock = Clock()
    guard = RateGuard(clock=clock)
    for seconds in (300.0, 10.0):
        guard.note(discord.RateLimited(seconds))
        guard.note(refused(429, **{"Retry-After": str(2 * seconds)}))
    for by_token, left in ((False, 600.0), (True, 600.0)):
        with pytest.raises(DeliveryDelayed, match="no requests for 600 s") as told:
            guard.check(by_token=by_token)
        assert told.value.seconds == left
    clock.now += 599.5
    with pytest.raises(DeliveryDelayed) as told:
        guard.check(by_token=False)
    assert told.value.seconds == 0.5
    clock.now += 0.5
    guard.check(by_token=False)


def test_a_time_to_wait_that_is_no_number_is_a_minute() -> None:
    guard = RateGuard(clock=Clock())
    guard.note(refused(429, **{"Retry-After": "soon"}))
    with pytest.raises(DeliveryDelayed) as told:
        guard.check(by_token=True)
    assert told.value.seconds == BAN_SECONDS


def test_what_the_connection_refuses_for_its_rate_counts_too() -> None:
    guard = RateGuard(clock=Clock())
    for _ in range(MAX_INVALID):
        guard.note(discord.RateLimited(0.0))
    with pytest.raises(DeliveryDelayed) as told:
        guard.check(by_token=True)
    assert told.value.seconds == WINDOW_SECONDS
