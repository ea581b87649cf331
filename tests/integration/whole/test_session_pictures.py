"""A moderated session on the sandbox's page: what four members read in two languages."""

from __future__ import annotations

from pathlib import Path

import pytest
from discord_spec import Documents
from documented import Kept
from picture_prompts import OMARS, RAVIS, RAVIS_SECOND, THEME, WEIS
from playwright.async_api import Browser
from session_pictures import FILES, LANGUAGES, painted, whole_visit

from bot.config import Config
from sdjax_engine.engine import Engine


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_a_moderated_session_is_led_reviewed_and_voted_on_in_two_languages(
    tmp_path: Path,
    tiny_engine: Engine,
    documents: Documents | None,
    discord_address: object,
    chromium: Browser,
) -> None:
    kept = Kept()
    model = {"name": "tiny", "checkpoint": "tiny", "sizes": ["64x64"], "num_inference_steps": 2}
    config = Config.parse({"discord": {"languages": LANGUAGES}, "models": [model]})
    async with painted(tmp_path, config, tiny_engine, observer=documents) as sandbox:
        document, names = await whole_visit(chromium, sandbox.address, kept.keep)
        assert sandbox.violations == []
    pictures = [
        (each["round"], each["number"], each["name"], each["votes"], each["recipe"]["prompt"])
        for each in document["pictures"]
    ]
    assert pictures == [
        (1, 1, "Ravi", 1, f"{RAVIS}, {THEME}"),
        (1, 2, "Omar", 2, f"{OMARS}, {THEME}"),
        (1, 3, "Wei", 0, f"{WEIS}, {THEME}"),
        (2, 1, "Ravi", 0, f"{RAVIS_SECOND}, {THEME}"),
    ]
    assert names == {
        "session.json",
        "round-1/1-Ravi.png",
        "round-1/2-Omar.png",
        "round-1/3-Wei.png",
        "round-2/1-Ravi.png",
    }
    assert set(kept) == FILES
