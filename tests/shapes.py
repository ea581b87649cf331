"""Pictures of soft shapes, whose perceptual hashes differ, and their files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import PIL.Image


def shapes(seed: int) -> PIL.Image.Image:
    """A picture of soft shapes, another for each seed."""
    rng = np.random.default_rng(seed)
    small = PIL.Image.fromarray(rng.integers(0, 256, (7, 7, 3), dtype=np.uint8))
    return small.resize((128, 128), PIL.Image.Resampling.BICUBIC)


def file_of(picture: PIL.Image.Image, kind: str = "PNG", **how: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **how)
    return file.getvalue()


def sent_again(picture: PIL.Image.Image) -> bytes:
    """The picture as somebody else sends it: smaller, and as JPEG."""
    return file_of(picture.resize((90, 90)), "JPEG", quality=60)
