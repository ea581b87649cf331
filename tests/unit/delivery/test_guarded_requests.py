"""The cases in which the rate guard delays a request, and the answers that are not Discord's own."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any, cast

import discord
import pytest
from stores import Clock

from bot.delivery.discord_requests import (
    BAN_SECONDS,
    FIRST_BLOCK_SECONDS,
    LONGEST_BLOCK_SECONDS,
    MAX_INVALID,
    WINDOW_SECONDS,
    NotDiscords,
    RateGuard,
)
from bot.delivery.refusals import DeliveryDelayed, Refusal, Refused

JSON = {"Content-Type": "application/json", "Via": "1.1 google"}
PAGE = {"Content-Type": "text/html", "Server": "cloudflare"}


def refused(status: int) -> discord.HTTPException:
    response = cast("Any", SimpleNamespace(status=status, reason="", headers=JSON))
    return discord.HTTPException(response, {"code": 0, "message": ""})


def answer(
    guard: RateGuard, status: int, headers: dict[str, str] | None = None, body: object = None
) -> discord.DiscordException | None:
    """Let the guard judge an answer; by default it is Discord's own."""
    response = cast("Any", SimpleNamespace(status=status, reason="", headers=headers or JSON))
    said = {"code": 50001, "message": "", "retry_after": 0.5} if body is None else body
    return guard.judge(response, said if isinstance(said, bytes) else json.dumps(said).encode())


def left(guard: RateGuard, *, by_token: bool = True) -> float:
    """Return how long the guard lets requests wait."""
    try:
        guard.check(by_token=by_token)
    except DeliveryDelayed as delayed:
        return delayed.seconds
    return 0.0


def ask(guard: RateGuard, error: BaseException, *, by_token: bool) -> None:
    with guard.request(by_token=by_token):
        raise error


def test_no_request_of_the_bot_is_made_before_a_long_wait_is_over() -> None:
    clock = Clock()
    guard = RateGuard(clock=clock)
    with pytest.raises(DeliveryDelayed) as told:
        ask(guard, discord.RateLimited(300.0), by_token=False)
    assert told.value.seconds == 300.0
    clock.now += 100
    assert (left(guard), left(guard, by_token=False)) == (0.0, 200.0)
    with pytest.raises(DeliveryDelayed, match="no requests for 200 s"):
        guard.check(by_token=False)
    clock.now += 200
    assert left(guard, by_token=False) == 0.0


def test_the_wait_of_one_interactions_token_delays_nothing_else() -> None:
    guard = RateGuard(clock=Clock())
    with pytest.raises(DeliveryDelayed) as told:
        ask(guard, discord.RateLimited(3600.0), by_token=True)
    assert told.value.seconds == 3600.0
    assert left(guard, by_token=False) == 0.0


@pytest.mark.parametrize(("status", "counts"), [(401, True), (403, True), (429, True), (404, False)])
def test_too_many_refusals_stop_all_requests_for_discords_window(status: int, counts: bool) -> None:
    clock = Clock()
    guard = RateGuard(clock=clock)
    for _ in range(MAX_INVALID - 1):
        assert answer(guard, status) is None
    assert left(guard) == 0.0
    clock.now += WINDOW_SECONDS - 1
    answer(guard, status)
    assert left(guard) == (1.0 if counts else 0.0)
    if counts:
        with pytest.raises(DeliveryDelayed):
            guard.check_first_answer()
    clock.now += 1
    answer(guard, status)
    assert left(guard) == 0.0


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({**PAGE, "Retry-After": "900"}, b"<html>", 900.0),
        (PAGE, b"error code: 1015", BAN_SECONDS),
        ({**PAGE, "Retry-After": "soon"}, b"", BAN_SECONDS),
        ({**PAGE, "Via": "1.1 a-proxy"}, b"<html>", BAN_SECONDS),
        ({"Content-Type": "application/json", "Retry-After": "30"}, {"retry_after": 9.0}, 30.0),
        (JSON, {"message": "no number"}, BAN_SECONDS),
    ],
)
def test_a_ban_of_the_address_stops_all_requests_until_its_end(
    headers: dict[str, str], body: object, seconds: float
) -> None:
    guard = RateGuard(clock=Clock())
    assert answer(guard, 429) is None
    assert left(guard) == 0.0
    assert isinstance(answer(guard, 429, headers, body), NotDiscords)
    assert left(guard) == seconds
    with pytest.raises(DeliveryDelayed):
        guard.check_first_answer()
    answer(guard, 429, {**PAGE, "Retry-After": "1"}, b"")
    assert left(guard) == seconds


def test_a_wait_that_is_longer_than_a_request_may_take_is_an_error_of_the_request() -> None:
    guard = RateGuard(clock=Clock())
    assert answer(guard, 429, JSON, {"retry_after": 60.0}) is None
    error = answer(guard, 429, JSON, {"retry_after": 3600.0})
    assert isinstance(error, discord.RateLimited)
    assert error.retry_after == 3600.0


BLOCKS = [
    ({"Content-Type": "application/json"}, {"message": "internal network error", "code": 40333}),
    (PAGE, b"<html><title>Attention Required! | Cloudflare</title></html>"),
    (PAGE, b""),
    ({}, b""),
    (JSON, b""),
    (JSON, b"null"),
]


@pytest.mark.parametrize(("headers", "body"), BLOCKS)
def test_a_block_of_the_address_pauses_all_requests_for_longer_and_longer(
    headers: dict[str, str], body: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    guard = RateGuard(clock=clock)
    waits = []
    for _ in range(8):
        error = answer(guard, 403, headers or {"Server": "cloudflare"}, body)
        answer(guard, 403, PAGE, b"")  # a request that was under way makes the pause no longer
        assert isinstance(error, NotDiscords)
        assert (left(guard), left(guard, by_token=False)) == (error.seconds, error.seconds)
        guard.check_first_answer()
        waits.append(error.seconds)
        clock.now += error.seconds
        assert left(guard) == 0.0
    assert waits[:3] == [FIRST_BLOCK_SECONDS, 2 * FIRST_BLOCK_SECONDS, 4 * FIRST_BLOCK_SECONDS]
    assert waits[-1] == LONGEST_BLOCK_SECONDS
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert answer(guard, 200) is None
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    error = answer(guard, 403, PAGE, b"")
    assert isinstance(error, NotDiscords)
    assert error.seconds == FIRST_BLOCK_SECONDS


@pytest.mark.parametrize("status", [400, 401, 404, 405, 407])
def test_a_page_in_place_of_discords_answer_is_no_refusal(status: int) -> None:
    guard = RateGuard(clock=Clock())
    error = answer(guard, status, PAGE, b"<html>a long page</html>")
    assert isinstance(error, discord.HTTPException)
    assert not isinstance(error, discord.NotFound | discord.Forbidden)
    assert (error.status, "page" in str(error), left(guard)) == (503, False, 0.0)
    with pytest.raises(DeliveryDelayed):
        ask(guard, error, by_token=True)


@pytest.mark.parametrize(
    ("status", "headers"), [(200, PAGE), (413, PAGE), (502, PAGE), (525, PAGE), (404, JSON)]
)
def test_other_answers_are_left_to_discord_py(status: int, headers: dict[str, str]) -> None:
    guard = RateGuard(clock=Clock())
    assert answer(guard, status, headers) is None
    assert left(guard) == 0.0


@pytest.mark.parametrize(
    ("error", "seconds", "said"),
    [
        (refused(503), 0.0, "503"),
        (discord.RateLimited(7.0), 7.0, "7.00"),
        (OSError("no route"), 0.0, "Discord cannot be reached: no route"),
    ],
)
def test_errors_that_pass_delay_the_delivery(error: Exception, seconds: float, said: str) -> None:
    with pytest.raises(DeliveryDelayed, match=said) as told:
        ask(RateGuard(clock=Clock()), error, by_token=False)
    assert told.value.seconds == seconds
    assert told.value.__cause__ is error


def test_a_refusal_is_translated_and_other_errors_stay() -> None:
    guard, error = RateGuard(clock=Clock()), refused(404)
    with pytest.raises(Refused) as told:
        ask(guard, error, by_token=True)
    assert (told.value.refusal, told.value.limit, told.value.__cause__) == (Refusal.DEAD_TOKEN, 0, error)
    with pytest.raises(ZeroDivisionError):
        ask(guard, ZeroDivisionError(), by_token=True)
