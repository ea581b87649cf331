"""Spoiler channels, read from the gateway's payloads: discord.py 2.7 drops flags.

Source of the flag: discord/discord-api-docs#8465.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.front.services.request import IN_SPOILER_CHANNEL

IS_SPOILER_CHANNEL = 1 << 21

Payload = dict[str, Any]
Parser = Callable[[Payload], None]


class SpoilerChannels:
    """The spoiler channels of the bot's servers, and a note in each interaction about its own channel."""

    def __init__(self) -> None:
        self._of_server: dict[str | None, set[str]] = {}

    def listen(self, parsers: dict[str, Parser]) -> None:
        """Read the payloads of these events before discord.py's own `parsers` do, by event."""
        readers: dict[str, Parser] = {
            "GUILD_CREATE": self._read_server,
            "GUILD_DELETE": self._forget_server,
            "CHANNEL_CREATE": self._read_channel,
            "CHANNEL_UPDATE": self._read_channel,
            "CHANNEL_DELETE": self._forget_channel,
            "INTERACTION_CREATE": self._note,
        }
        for event, read in readers.items():
            parsers[event] = _both(read, parsers[event])

    def _read_server(self, server: Payload) -> None:
        if "channels" in server:  # an unavailable server has none
            found = {channel["id"] for channel in server["channels"] if _is_spoiler(channel)}
            self._of_server[server["id"]] = found

    def _forget_server(self, server: Payload) -> None:
        if not server.get("unavailable"):
            self._of_server.pop(server["id"], None)

    def _read_channel(self, channel: Payload) -> None:
        self._forget_channel(channel)
        if _is_spoiler(channel):
            self._of_server.setdefault(channel.get("guild_id"), set()).add(channel["id"])

    def _forget_channel(self, channel: Payload) -> None:
        self._of_server.get(channel.get("guild_id"), set()).discard(channel["id"])

    def _note(self, interaction: Payload) -> None:
        """Note in `data`, which discord.py keeps, what `channel` says, which it drops.

        The channel of a thread is known in the bot's servers alone; elsewhere the thread's own flags count.
        """
        channel, data = interaction.get("channel") or {}, interaction.get("data")
        if data is not None:
            known = self._of_server.get(interaction.get("guild_id"), set())
            data[IN_SPOILER_CHANNEL] = _is_spoiler(channel) or channel.get("parent_id") in known


def _is_spoiler(channel: Payload) -> bool:
    return bool((channel.get("flags") or 0) & IS_SPOILER_CHANNEL)


def _both(first: Parser, second: Parser) -> Parser:
    def parse(payload: Payload) -> None:
        first(payload)
        second(payload)

    return parse
