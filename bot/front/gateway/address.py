"""Sets Discord's address: the real one, a proxy's, or the sandbox's."""

from __future__ import annotations

from discord.gateway import DiscordWebSocket
from discord.http import Route
from yarl import URL


def use_address(api_url: str, gateway_url: str) -> None:
    """Send every later REST request to `api_url` and every new gateway connection to `gateway_url`.

    discord.py keeps both as class attributes, so they apply to the whole process.
    """
    Route.BASE = api_url.rstrip("/")
    DiscordWebSocket.DEFAULT_GATEWAY = URL(gateway_url)
