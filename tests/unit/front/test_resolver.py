"""The addresses of Discord's hosts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from bot.front.uploads.resolver import Resolver

Answers = Callable[..., list[Any]]
FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], None]:
    """Sets what the system's resolver answers."""
    return lambda answers: monkeypatch.setattr(socket, "getaddrinfo", answers)


async def addresses(resolver: Resolver) -> list[str]:
    return [each["host"] for each in await resolver.resolve("discord.test", 443)]


async def test_known_addresses_stand_in_for_a_look_up_that_fails(
    answering: Callable[[Answers], None],
) -> None:
    resolver = Resolver()
    answering(lambda *_, **__: FOUND)
    assert await addresses(resolver) == ["192.0.2.1"]

    def fail(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_AGAIN, "no name server")

    answering(fail)
    assert await addresses(resolver) == ["192.0.2.1"]
    with pytest.raises(OSError, match="no name server"):
        await resolver.resolve("other.test", 443)


async def test_known_addresses_stand_in_for_a_look_up_that_hangs(
    answering: Callable[[Answers], None],
) -> None:
    resolver, hung = Resolver(), threading.Event()
    answering(lambda *_, **__: FOUND)
    await addresses(resolver)
    answering(lambda *_, **__: FOUND if hung.wait() else [])
    assert await addresses(resolver) == ["192.0.2.1"]
    assert await addresses(resolver) == ["192.0.2.1"]
    assert len([thread for thread in threading.enumerate() if thread.name == "addresses"]) == 1
    hung.set()
