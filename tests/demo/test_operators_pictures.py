"""The steps for the pictures of docs/operators/page.md work."""

from __future__ import annotations

from pathlib import Path

import pytest
from documented import Kept
from operators_pictures import FILES, visited
from playwright.async_api import Browser


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_an_operator_looks_at_a_busy_queue(tmp_path: Path, chromium: Browser) -> None:
    kept = Kept()
    await visited(chromium, tmp_path, kept.keep)
    assert set(kept) == FILES
