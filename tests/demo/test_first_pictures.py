"""The steps of the documentation's first pictures and of the film work."""

from __future__ import annotations

from pathlib import Path

import pytest
from documented import Kept
from first_pictures import FILES, demo_of_two_sizes, whole_visit
from playwright.async_api import Browser
from running_demo import Demo

STEPS = 4  # of a picture; no test looks at what it shows


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.asyncio(loop_scope="session")
async def test_newcomers_paint_pick_enlarge_and_remix_on_a_phone_and_in_the_film(
    tmp_path: Path, demo: Demo, chromium: Browser
) -> None:
    kept = Kept()
    async with demo_of_two_sizes(tmp_path, demo.cache, steps=STEPS) as sandbox:
        await whole_visit(chromium, sandbox.address, kept.keep, first_steps=2 * STEPS, film_steps=STEPS)
        assert sandbox.violations == []
    quick = {"first-paint-2.png"}  # its preview, which a quick machine has no time for
    assert set(kept) | quick == FILES
