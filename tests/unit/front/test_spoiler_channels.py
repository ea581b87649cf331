"""Which interactions are in spoiler channels, from payloads as the gateway sends them."""

from __future__ import annotations

from typing import Any

import pytest

from bot.front.gateway.spoiler_channels import IS_SPOILER_CHANNEL, SpoilerChannels
from bot.front.services.request import IN_SPOILER_CHANNEL

EVENTS = (
    *("GUILD_CREATE", "GUILD_DELETE", "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE"),
    "INTERACTION_CREATE",
)
SPOILER: dict[str, Any] = {"id": "5", "guild_id": "1", "type": 0, "flags": IS_SPOILER_CHANNEL | 1}
PLAIN = {**SPOILER, "flags": 1}
THREAD = {"id": "6", "guild_id": "1", "type": 11, "flags": 0, "parent_id": "5"}


class Line:
    """The gateway with parsers that keep what they are given."""

    def __init__(self) -> None:
        self.parsed: list[dict[str, Any]] = []
        self._parsers = dict.fromkeys(EVENTS, self.parsed.append)
        SpoilerChannels().listen(self._parsers)

    def send(self, event: str, payload: dict[str, Any]) -> None:
        self._parsers[event](payload)
        assert self.parsed[-1] is payload

    def is_spoiler(self, channel: dict[str, Any] | None, *, guild_id: str | None = "1") -> bool:
        payload = {"guild_id": guild_id, "channel": channel, "data": {"custom_id": "a"}}
        self.send("INTERACTION_CREATE", payload)
        return bool(payload["data"][IN_SPOILER_CHANNEL])  # type: ignore[index,call-overload]


@pytest.fixture
def line() -> Line:
    return Line()


def test_the_flag_of_the_interactions_own_channel_counts_in_any_server(line: Line) -> None:
    assert line.is_spoiler(SPOILER)
    assert line.is_spoiler({**SPOILER, "guild_id": "9"}, guild_id="9")  # a server without the bot
    assert not line.is_spoiler(PLAIN)
    assert line.is_spoiler({**THREAD, "flags": IS_SPOILER_CHANNEL})


def test_a_thread_is_known_by_its_channel_until_that_changes_or_goes(line: Line) -> None:
    assert not line.is_spoiler(THREAD)
    line.send("GUILD_CREATE", {"id": "1", "channels": [SPOILER, {**PLAIN, "id": "4"}]})
    assert line.is_spoiler(THREAD)
    assert not line.is_spoiler({**THREAD, "parent_id": "4"})
    line.send("CHANNEL_UPDATE", PLAIN)
    assert not line.is_spoiler(THREAD)
    line.send("CHANNEL_CREATE", SPOILER)
    assert line.is_spoiler(THREAD)
    line.send("CHANNEL_DELETE", SPOILER)
    assert not line.is_spoiler(THREAD)


def test_an_outage_of_a_server_changes_nothing_and_its_loss_forgets_its_channels(line: Line) -> None:
    line.send("GUILD_CREATE", {"id": "1", "channels": [SPOILER]})
    line.send("GUILD_DELETE", {"id": "1", "unavailable": True})
    line.send("GUILD_CREATE", {"id": "1", "unavailable": True})
    assert line.is_spoiler(THREAD)
    line.send("GUILD_DELETE", {"id": "1"})
    assert not line.is_spoiler(THREAD)


def test_payloads_without_a_server_a_channel_flags_or_data_are_passed_on(line: Line) -> None:
    assert not line.is_spoiler(None)
    assert not line.is_spoiler({"id": "7", "type": 1}, guild_id=None)
    assert not line.is_spoiler({**PLAIN, "flags": None})
    line.send("INTERACTION_CREATE", {"type": 1})
    line.send("CHANNEL_UPDATE", {"id": "8", "type": 3})
