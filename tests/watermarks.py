"""A visible watermark, and weights for the invisible one: for tests of what is done with watermarks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import PIL.Image
import torch
import trustmark_weights as weights

SQUARE, COLUMNS, BITS = 4, 8, 64
MAGIC = 0b1011  # before the 60 bits of a number

SMALL: Mapping[str, weights.Shapes] = {
    "encoder": weights.encoder_shapes(width=4),
    "decoder": weights.decoder_shapes(width=4),
}
"""Networks of TrustMark's form that take milliseconds."""


class CornerWatermark:
    """Draws a number as black and white squares into a corner; fails while it is `broken`."""

    def __init__(self, _source: str = "") -> None:
        self.broken = self.closed = False

    def open(self) -> None: ...

    def put(self, picture: PIL.Image.Image, number: int) -> None:
        if self.broken:
            raise OSError("the process has ended")
        for place, box in enumerate(boxes()):
            picture.paste((255,) * 3 if (MAGIC << 60 | number) >> place & 1 else (0,) * 3, box)

    def find(self, picture: PIL.Image.Image) -> int | None:
        if self.broken:
            raise OSError("the process has ended")
        grey = picture.convert("L")
        found = sum(
            (grey.getpixel((box[0] + 1, box[1] + 1)) > 127) << place for place, box in enumerate(boxes())
        )
        return found & 2**60 - 1 if found >> 60 == MAGIC else None

    def close(self) -> None:
        self.closed = True


def boxes() -> list[tuple[int, int, int, int]]:
    corners = [(SQUARE * (place % COLUMNS), SQUARE * (place // COLUMNS)) for place in range(BITS)]
    return [(left, top, left + SQUARE, top + SQUARE) for left, top in corners]


def write_weights(folder: Path, shapes: Mapping[str, weights.Shapes] = SMALL, **contents: Any) -> Path:
    """Write weights as TrustMark's are published into `folder`; `contents` replace those of a file."""
    for part, each in shapes.items():
        tensors = {name: torch.from_numpy(value) for name, value in weights.values(each).items()}
        whole = {"state_dict": tensors, "epoch": 3, "global_step": 9}
        torch.save(contents.get(part, whole), folder / f"{part}_P.ckpt")
    return folder
