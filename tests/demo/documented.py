"""The pictures of the documentation as files: where they are, and how large they may be."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import PIL.Image

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
COLOURS = 256  # of a palette; the files are a third as large
MOST_BYTES = {".png": 120_000, ".webp": 1_500_000}

Keep = Callable[[str, bytes], None]
"""Takes a file's name and its bytes."""


def small(png: bytes) -> bytes:
    """The same picture with fewer colours."""
    file = io.BytesIO()
    picture = PIL.Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLOURS, dither=PIL.Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def too_large(kept: Mapping[str, bytes]) -> set[str]:
    """The names of the files that a page should not load."""
    return {name for name, data in kept.items() if len(data) > MOST_BYTES[Path(name).suffix]}


class Kept(dict[str, bytes]):
    """The files of a visit, by their names, as the documentation has them."""

    def keep(self, name: str, data: bytes) -> None:
        """Keep a screenshot or a film; the newest of a name counts."""
        self[name] = small(data) if name.endswith(".png") else data
