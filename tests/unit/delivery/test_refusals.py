"""The meaning of Discord's refusals, and the wait after a refusal."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import discord
import pytest

from bot.delivery.outbox import LONGEST_WAIT, MAX_ATTEMPTS, backoff
from bot.delivery.refusals import FilesGone, Refusal, understand


def refused(status: int, code: int = 0) -> discord.HTTPException:
    response = cast("Any", SimpleNamespace(status=status, reason=""))
    return discord.HTTPException(response, {"code": code, "message": ""})


@pytest.mark.parametrize(
    ("status", "code", "by_token", "meaning"),
    [
        (500, 0, True, Refusal.LATER),
        (429, 0, False, Refusal.LATER),
        (401, 0, False, Refusal.LATER),
        (401, 50027, True, Refusal.DEAD_TOKEN),
        (401, 0, True, Refusal.DEAD_TOKEN),
        (403, 0, True, Refusal.LATER),
        (403, 0, False, Refusal.LATER),
        (403, 40333, True, Refusal.LATER),
        (403, 40333, False, Refusal.LATER),
        (403, 999_999, False, Refusal.LATER),
        (403, 50027, True, Refusal.DEAD_TOKEN),
        (403, 50013, True, Refusal.DEAD_TOKEN),
        (403, 50001, True, Refusal.DEAD_TOKEN),
        (403, 50005, False, Refusal.NO_ACCESS),
        (403, 20009, False, Refusal.DIRECT_CLOSED),
        (404, 0, True, Refusal.DEAD_TOKEN),
        (400, 10062, True, Refusal.DEAD_TOKEN),
        (400, 50027, True, Refusal.DEAD_TOKEN),
        (400, 10015, True, Refusal.DEAD_TOKEN),
        (404, 10015, True, Refusal.DEAD_TOKEN),
        (404, 10015, False, Refusal.MESSAGE_DELETED),
        (404, 0, False, Refusal.MESSAGE_DELETED),
        (404, 10008, True, Refusal.MESSAGE_DELETED),
        (404, 10008, False, Refusal.MESSAGE_DELETED),
        (404, 10003, False, Refusal.CHANNEL_DELETED),
        (403, 50001, False, Refusal.NO_ACCESS),
        (403, 50013, False, Refusal.NO_PERMISSION),
        (403, 50007, False, Refusal.DIRECT_CLOSED),
        (403, 50278, False, Refusal.DIRECT_CLOSED),
        (404, 10004, False, Refusal.SERVER_DELETED),
        (400, 50083, True, Refusal.THREAD_ARCHIVED),
        (400, 160005, False, Refusal.THREAD_ARCHIVED),
        (400, 20016, False, Refusal.LATER),
        (429, 30046, False, Refusal.LATER),
        (413, 0, True, Refusal.TOO_LARGE),
        (413, 0, False, Refusal.TOO_LARGE),
        (413, 40005, True, Refusal.TOO_LARGE),
        (400, 40005, False, Refusal.TOO_LARGE),
        (400, 50035, False, Refusal.REJECTED),
        (400, 50035, True, Refusal.REJECTED),
        (400, 10015, False, Refusal.REJECTED),
    ],
)
def test_a_refusal_means_what_the_next_step_depends_on(
    status: int, code: int, by_token: bool, meaning: Refusal
) -> None:
    assert understand(refused(status, code), by_token=by_token) is meaning


def test_waits_grow_to_a_limit_and_are_spread() -> None:
    waits = [backoff(attempts, 0.5) for attempts in range(20)]
    assert waits == sorted(waits)
    assert waits[-1] < LONGEST_WAIT
    assert backoff(3, 0.0) < backoff(3, 0.9)


def test_a_result_is_retried_for_at_least_four_hours_as_the_page_says() -> None:
    least = sum(backoff(attempts, 0.0) for attempts in range(MAX_ATTEMPTS - 1))  # none after the last attempt
    assert 4.0 <= least / 3600 < 4.1
    mean = sum(backoff(attempts, 0.5) for attempts in range(MAX_ATTEMPTS - 1))
    assert round(mean / 3600) == 6
    page = (Path(__file__).parents[3] / "docs" / "operators" / "trouble.md").read_text()
    assert f"{MAX_ATTEMPTS} attempts failed, within at least four hours, six on average" in page


def test_files_that_are_gone_are_named() -> None:
    gone = FilesGone(["aa/one.png", "bb/two.png"])
    assert gone.names == ("aa/one.png", "bb/two.png")
    assert str(gone) == "files are gone: aa/one.png, bb/two.png"
