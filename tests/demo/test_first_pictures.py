"""The steps of the documentation's screenshots work, and each screenshot is small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from first_pictures import IMAGES, ROOT, demo_of_two_sizes, small, whole_visit
from playwright.async_api import Browser
from running_demo import Demo

MOST_BYTES = 120_000
STEPS = 4  # of a picture; no test looks at what it shows
PAGES = (
    "README.md",
    "docs/artists/first-pictures.md",
    "docs/artists/README.md",
    "docs/moderators/README.md",
    "docs/moderators/prompts.md",
    "docs/moderators/reviews.md",
    "docs/hosts/README.md",
)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.asyncio(loop_scope="session")
async def test_newcomers_paint_pick_enlarge_and_remix_on_a_phone(
    tmp_path: Path, demo: Demo, chromium: Browser
) -> None:
    kept: dict[str, bytes] = {}
    async with demo_of_two_sizes(tmp_path, demo.cache, steps=STEPS) as sandbox:
        await whole_visit(chromium, sandbox.address, kept.__setitem__, first_steps=2 * STEPS)
        assert sandbox.violations == []
    assert {name for name, picture in kept.items() if len(small(picture)) > MOST_BYTES} == set()
    assert {f"{name}.png" for name in kept} <= {file.name for file in IMAGES.iterdir()}


def test_every_picture_of_the_documentation_is_small_and_shown() -> None:
    shown = {
        Path(path).name
        for page in PAGES
        for path in re.findall(r"\(([^)\s]+\.png)\)", (ROOT / page).read_text())
    }
    assert {file.name for file in IMAGES.iterdir()} == shown
    assert [file.name for file in IMAGES.iterdir() if file.stat().st_size > MOST_BYTES] == []
