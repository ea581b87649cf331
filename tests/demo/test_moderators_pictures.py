"""The steps for the pictures of docs/moderators/README.md work."""

from __future__ import annotations

from pathlib import Path

import pytest
from discord.gateway import DiscordWebSocket
from discord.http import Route
from first_pictures import IMAGES, small
from moderators_pictures import visited
from playwright.async_api import Browser
from test_first_pictures import MOST_BYTES

from bot.front.gateway.address import use_address


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_a_member_is_refused_and_a_moderator_looks(tmp_path: Path, chromium: Browser) -> None:
    kept: dict[str, bytes] = {}
    api_url, gateway_url = Route.BASE, str(DiscordWebSocket.DEFAULT_GATEWAY)
    try:
        assert await visited(chromium, tmp_path, kept.__setitem__) == []
    finally:
        use_address(api_url, gateway_url)
    assert {name for name, picture in kept.items() if len(small(picture)) > MOST_BYTES} == set()
    assert {f"{name}.png" for name in kept} <= {file.name for file in IMAGES.iterdir()}
