"""Each picture of the documentation is made by a script, shown by a page, and small."""

from __future__ import annotations

import re

from documented import IMAGES, ROOT, too_large
from renew_pictures import FILES, VISITS


def test_a_script_makes_every_picture_and_a_page_shows_it() -> None:
    files = {file.name for file in IMAGES.iterdir()}
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    shown = {
        file
        for page in pages
        for file in re.findall(r"\]\((?:[\w./]*/)?images/([^)\s]+)\)", page.read_text())
    }
    assert files == frozenset().union(*FILES.values())
    assert files == shown
    assert FILES.keys() == VISITS.keys()


def test_every_picture_is_small() -> None:
    assert too_large({file.name: file.read_bytes() for file in IMAGES.iterdir()}) == set()
