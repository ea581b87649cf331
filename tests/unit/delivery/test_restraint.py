"""When no request is made at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import discord
import pytest
from stores import Clock

from bot.delivery.refusals import DeliveryDelayed
from bot.delivery.restraint import BAN_SECONDS, MAX_INVALID, WINDOW_SECONDS, Restraint


def refused(status: int, **headers: str) -> discord.HTTPException:
    headers = headers or {"Via": "1.1 google"}
    response = cast("Any", SimpleNamespace(status=status, reason="", headers=headers))
    return discord.HTTPException(response, {"code": 0, "message": ""})


def test_nobody_asks_before_a_long_wait_is_over() -> None:
    clock = Clock()
    restraint = Restraint(clock=clock)
    restraint.check(by_token=False)
    restraint.note(discord.RateLimited(300.0))
    clock.now += 100
    restraint.check(by_token=True)
    with pytest.raises(DeliveryDelayed) as told:
        restraint.check(by_token=False)
    assert told.value.seconds == 200
    clock.now += 200
    restraint.check(by_token=False)


@pytest.mark.parametrize(("status", "counts"), [(401, True), (403, True), (429, True), (404, False)])
def test_too_many_refusals_end_all_requests_for_as_long_as_discord_counts_them(
    status: int, counts: bool
) -> None:
    clock = Clock()
    restraint = Restraint(clock=clock)
    for _ in range(MAX_INVALID - 1):
        restraint.note(refused(status))
    restraint.check(by_token=True)
    clock.now += WINDOW_SECONDS - 1
    restraint.note(refused(status))
    if not counts:
        restraint.check(by_token=True)
        return
    with pytest.raises(DeliveryDelayed) as told:
        restraint.check(by_token=True)
    assert told.value.seconds == 1
    clock.now += 1
    restraint.check(by_token=True)
    restraint.note(refused(status))
    restraint.check(by_token=True)


@pytest.mark.parametrize(
    ("header", "seconds"), [({"Retry-After": "900"}, 900), ({"Server": "x"}, BAN_SECONDS)]
)
def test_a_ban_by_the_proxy_in_front_of_discord_is_waited_out_by_all(
    header: dict[str, str], seconds: float
) -> None:
    restraint = Restraint(clock=Clock())
    restraint.note(refused(429))
    restraint.check(by_token=False)
    restraint.note(refused(429, **header))
    with pytest.raises(DeliveryDelayed) as told:
        restraint.check(by_token=True)
    assert told.value.seconds == seconds
