"""Which ways to show a message are open, and in which order they are tried."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bot.delivery.refusals import Refusal
from bot.delivery.sender import WAYS, Attempt, Sender
from bot.domain.jobs import State


def attempt(
    *,
    private: bool = False,
    message: int | None = 7,
    channel: int | None = None,
    refused: bool = False,
    cancelled: bool = False,
) -> Attempt:
    job = SimpleNamespace(
        origin=SimpleNamespace(private=private, external=False),
        message_id=message,
        message_channel_id=channel,
        state=State.CANCELLED if cancelled else State.DONE,
    )
    content = SimpleNamespace(refusal=refused)
    return Attempt(job=cast("Any", job), content=cast("Any", content))


def tried(of: Attempt, *refusals: Refusal, token: bool) -> Iterator[str]:
    """Yield the ways that are tried while each is refused in turn; a dead token stays dead."""
    left = list(refusals)
    for way in WAYS:
        sender = cast("Sender", SimpleNamespace(token_lives=lambda _job, lives=token: lives))
        if not way.is_open(sender, of):
            continue
        yield way.send.__name__.strip("_")
        if not left:
            return
        of.refusal = left.pop(0)
        token = token and of.refusal is not Refusal.DEAD_TOKEN


@pytest.mark.parametrize(
    ("of", "token", "refusals", "ways"),
    [
        ({}, True, (), ["edit_by_token"]),
        ({}, False, (), ["edit_by_bot"]),
        ({"message": None}, False, (), ["post"]),
        ({"private": True}, False, (), ["send_directly"]),
        ({}, True, (Refusal.DEAD_TOKEN,), ["edit_by_token", "edit_by_bot"]),
        ({"message": None}, True, (Refusal.DEAD_TOKEN,), ["edit_by_token", "post"]),
        ({"private": True}, True, (Refusal.DEAD_TOKEN,), ["edit_by_token", "send_directly"]),
        ({}, True, (Refusal.THREAD_ARCHIVED,), ["edit_by_token", "post"]),
        ({}, False, (Refusal.NO_ACCESS,), ["edit_by_bot", "send_directly"]),
        ({}, False, (Refusal.THREAD_ARCHIVED, Refusal.NO_ACCESS), ["edit_by_bot", "post", "send_directly"]),
        ({"cancelled": True}, False, (Refusal.NO_ACCESS,), ["edit_by_bot"]),
        ({"refused": True}, True, (), ["replace_privately"]),
        ({"refused": True}, True, (Refusal.DEAD_TOKEN,), ["replace_privately", "edit_by_bot"]),
        ({"refused": True}, False, (), ["edit_by_bot"]),
        ({"refused": True, "private": True}, True, (), ["edit_by_token"]),
    ],
)
def test_the_next_way_follows_from_the_last_refusal(
    of: dict[str, Any], token: bool, refusals: tuple[Refusal, ...], ways: list[str]
) -> None:
    assert list(tried(attempt(**of), *refusals, token=token)) == ways


def test_a_message_that_was_deleted_on_the_way_is_not_edited() -> None:
    deleted = attempt(refused=True)
    deleted.message_deleted = True
    assert list(tried(deleted, Refusal.DEAD_TOKEN, token=True)) == ["replace_privately", "post"]


@pytest.mark.parametrize(
    ("of", "refusal", "reason"),
    [
        ({"private": True}, None, Refusal.PRIVATE_EXPIRED),
        ({"private": True}, Refusal.DEAD_TOKEN, Refusal.PRIVATE_EXPIRED),
        ({"message": None}, Refusal.DEAD_TOKEN, Refusal.NO_MESSAGE),
        ({}, Refusal.NO_ACCESS, Refusal.NO_ACCESS),
    ],
)
def test_the_reason_is_that_of_the_last_way_or_that_there_was_none(
    of: dict[str, Any], refusal: Refusal | None, reason: Refusal
) -> None:
    last = attempt(**of)
    last.refusal = refusal
    assert last.reason is reason


def test_a_result_that_was_sent_directly_is_changed_there() -> None:
    assert next(tried(attempt(private=True, channel=9), token=True)) == "edit_by_bot"
