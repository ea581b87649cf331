"""The steps for the pictures of docs/moderators/README.md work."""

from __future__ import annotations

from pathlib import Path

import pytest
from discord.gateway import DiscordWebSocket
from discord.http import Route
from documented import Kept
from moderators_pictures import FILES, visited
from playwright.async_api import Browser

from bot.front.gateway.address import use_address


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_a_member_is_refused_and_a_moderator_looks(tmp_path: Path, chromium: Browser) -> None:
    kept = Kept()
    api_url, gateway_url = Route.BASE, str(DiscordWebSocket.DEFAULT_GATEWAY)
    try:
        assert await visited(chromium, tmp_path, kept.keep) == []
    finally:
        use_address(api_url, gateway_url)
    assert set(kept) == FILES
