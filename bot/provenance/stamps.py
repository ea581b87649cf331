"""The visible label of the law in a corner of a picture: "AI GENERATED" for the EU, AI生成 for China.

GB 45438-2025 wants letters of at least 5 % of the shorter side, at an edge or in a corner. They say AI, and
生成 or 合成. The EU's label has "AI" and "GENERATED" or "MODIFIED".
A picture that was painted from another one is modified.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from PIL.PngImagePlugin import PngInfo

from bot.config.provenance import Stamp
from sdjax_engine.images import PARAMETERS_CHUNK, RECIPE_CHUNK

LETTER_SHARE = 0.05  # of the shorter side
LEAST_LETTER = 8  # pixels
CAPITAL = 0.7  # the height of a capital by the size of Pillow's font
INK, GROUND = (255, 255, 255), (0, 0, 0)
GRID = 100  # units of a drawn letter's side
Strokes = Sequence[Sequence[tuple[int, int]]]

HAN: Mapping[str, Strokes] = MappingProxyType(
    {
        "生": (
            ((32, 6), (26, 24), (14, 42)),
            ((26, 28), (86, 28)),
            ((22, 58), (80, 58)),
            ((6, 92), (94, 92)),
            ((53, 4), (53, 92)),
        ),
        "成": (
            ((18, 26), (92, 26)),
            ((18, 26), (18, 60), (14, 76), (6, 94)),
            ((18, 48), (44, 48), (43, 74), (40, 80), (31, 77)),
            ((56, 4), (58, 34), (64, 58), (76, 82), (86, 92), (91, 88), (94, 72)),
            ((83, 42), (74, 64), (62, 80), (46, 94)),
            ((70, 5), (82, 16)),
        ),
        "合": (
            ((50, 5), (36, 24), (6, 46)),
            ((50, 5), (64, 24), (94, 46)),
            ((30, 48), (70, 48)),
            ((24, 62), (76, 62), (76, 92), (24, 92), (24, 62)),
        ),
    }
)
"""Letters as strokes, because Pillow's own font is Latin."""
WORDS: Mapping[Stamp, tuple[str, str]] = MappingProxyType(
    {"eu": ("AI GENERATED", "AI MODIFIED"), "cn": ("AI生成", "AI合成")}
)


def repainted(data: bytes, *changes: Callable[[PIL.Image.Image], None]) -> bytes:
    """Return a PNG of `encode_png` with its recipe after changes of the RGB picture. Call it in a thread."""
    with PIL.Image.open(io.BytesIO(data)) as opened:
        info, picture = dict(opened.info), opened.convert("RGB")
    for change in changes:
        change(picture)
    texts = PngInfo()
    for name in (PARAMETERS_CHUNK, RECIPE_CHUNK):
        if name in info:
            texts.add_text(name, info[name])
    file = io.BytesIO()
    picture.save(file, format="PNG", pnginfo=texts, compress_level=6)
    return file.getvalue()


def draw_stamp(picture: PIL.Image.Image, stamp: Stamp, *, modified: bool = False) -> None:
    """Draw the label into the lower right corner of an RGB picture: white letters on a dark pill."""
    height = max(LEAST_LETTER, math.ceil(LETTER_SHARE * min(picture.size)))
    word, draw = WORDS[stamp][modified], PIL.ImageDraw.Draw(picture)
    font = PIL.ImageFont.load_default(math.ceil(height / CAPITAL))
    latin = "".join(letter for letter in word if letter not in HAN)
    drawn = [letter for letter in word if letter in HAN]
    gap, size = height // 2, height * 5 // 4  # of the strokes: as high as a letter with its parts below
    width = math.ceil(font.getlength(latin)) + len(drawn) * (size + height // 8)
    right, bottom = picture.width - gap, picture.height - gap
    left, top = right - width - 2 * gap, bottom - size - gap
    draw.rounded_rectangle((left, top, right, bottom), radius=(bottom - top) // 2, fill=GROUND)
    middle = (top + bottom) / 2
    draw.text((left + gap, middle), latin, fill=INK, font=font, anchor="lm")
    at = left + gap + font.getlength(latin) + height // 8
    for letter in drawn:
        for stroke in HAN[letter]:
            points = [(at + x * size / GRID, middle - size / 2 + y * size / GRID) for x, y in stroke]
            draw.line(points, fill=INK, width=max(1, size // 11), joint="curve")
        at += size + height // 8
