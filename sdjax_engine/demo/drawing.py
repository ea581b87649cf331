"""Paints scenes: objects and shapes on a ground, in a style.

The ten shapes and the grounds are drawn here. The objects are pictures of Fluent Emoji; `Sprites` reads them
from a folder that `sdjax_engine.demo.training.sprites` fetches. Without the folder, only scenes of shapes can
be drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from sdjax_engine.demo.objects import OBJECTS
from sdjax_engine.demo.scenes import COLOURS, Scene, Thing
from sdjax_engine.demo.silhouettes import silhouette

Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]

SIDE = 160
"""Side of a square picture, in pixels."""
SIZES: tuple[Size, ...] = ((160, 160), (240, 160), (160, 240))
"""Width and height of the pictures that the training draws; each has the square one in its middle."""
LARGER: Size = (240, 240)


class Sprites:
    """Pictures of the things, with transparency, cut to their outline; `folder` has those of the objects."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.sprite = lru_cache(maxsize=4000)(self._sprite)
        self._coloured = lru_cache(maxsize=400)(self._colour)
        self._whole = lru_cache(maxsize=None)(self._read)

    def of(self, thing: Thing, radius: float) -> Image.Image:
        """Return an RGBA picture of a thing; `radius` is half its longer side, in pixels."""
        return self.sprite(thing.name, thing.colour, round(radius * 4) / 4)

    def _sprite(self, name: str, colour: str, radius: float) -> Image.Image:
        if Thing(name=name, colour=colour).is_shape:
            mask = silhouette(name, radius)
            picture = Image.new("RGBA", mask.size, (*COLOURS[colour], 0))
            picture.putalpha(mask)
            return picture
        whole = self._coloured(name, colour) if colour else self._whole(name)
        scale = 2 * radius / max(whole.size)
        width, height = (max(1, round(side * scale)) for side in whole.size)
        return whole.resize(
            (width, height), Image.Resampling.BOX if scale < 0.4 else Image.Resampling.BICUBIC
        )

    def _colour(self, name: str, colour: str) -> Image.Image:
        return tinted(self._whole(name), COLOURS[colour])

    def _read(self, name: str) -> Image.Image:
        if self.folder is None:
            raise ValueError(f"there is no folder with the picture of {name}")
        with Image.open(self.folder / OBJECTS[name].file) as picture:
            whole = picture.convert("RGBA")
        return whole.crop(whole.getchannel("A").point(lambda a: 255 * (a > 16)).getbbox())


def tinted(picture: Image.Image, colour: tuple[int, int, int]) -> Image.Image:
    """Return an RGBA picture in shades of one colour, from its own darkest to its own lightest pixels."""
    grey, alpha = (np.asarray(picture.convert("LA"), float)[..., channel] for channel in (0, 1))
    darkest, lightest = np.percentile(grey[alpha > 128], (2, 98)) if (alpha > 128).any() else (0, 255)
    light = np.clip((grey - darkest) / max(lightest - darkest, 1), 0, 1)
    shades = Image.fromarray(
        _blend(light, _shade(colour, 0, 0.3), colour, _shade(colour, 255, 0.35)).astype(np.uint8)
    )
    shades.putalpha(picture.getchannel("A"))
    return shades


def _shade(colour: tuple[int, int, int], end: int, part: float) -> tuple[int, int, int]:
    """Return a colour between black (0) or white (255) and a colour, a part of the way."""
    red, green, blue = (round(end + part * (each - end)) for each in colour)
    return red, green, blue


def draw(
    scene: Scene,
    sprites: Sprites,
    rng: np.random.Generator | None = None,
    *,
    size: Size = (SIDE, SIDE),
    finish: Callable[[Pixels], Pixels] | None = None,
) -> Image.Image:
    """Paint the scene; with `rng`, places and sizes vary a little.

    `finish` changes the pixels last, for a style that only a LoRA knows.
    """
    picture = Image.fromarray(ground(scene.ground, size))
    for placed in scene.placed:
        dx, dy, growth = (0.0, 0.0, 1.0) if rng is None else _jitter(rng)
        sprite = sprites.of(placed.thing, placed.radius * growth * min(size))
        x, y = (at + by * min(size) for at, by in zip(placed.middle(size), (dx, dy), strict=True))
        picture.paste(sprite, (round(x - sprite.width / 2), round(y - sprite.height / 2)), sprite)
    pixels = STYLES[scene.style](np.asarray(picture), min(size))
    return Image.fromarray(finish(pixels) if finish else pixels)


def _jitter(rng: np.random.Generator) -> tuple[float, float, float]:
    return rng.uniform(-0.025, 0.025), rng.uniform(-0.025, 0.025), rng.uniform(0.95, 1.05)


@lru_cache(maxsize=256)
def ground(name: str, size: Size) -> Pixels:
    """Return the ground of a scene alone, `(height, width, 3)`: a plain colour or a painted one."""
    width, height = size
    if name in COLOURS:
        return np.full((height, width, 3), COLOURS[name], np.uint8)
    side = min(size)
    y = (np.arange(height) + 0.5 - (height - side) / 2)[:, None] / side
    x = (np.arange(width) + 0.5 - (width - side) / 2)[None, :] / side
    painted: Pixels = np.clip(GROUNDS[name](x, y * np.ones_like(x)), 0, 255).astype(np.uint8)
    return painted


Floats = npt.NDArray[np.float64]


def _blend(t: Floats, *stops: tuple[int, int, int]) -> Floats:
    """Return the colours at `t` (h, w), from 0 to 1, of a gradient with stops at equal distances."""
    places = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(t, places, channel) for channel in zip(*stops, strict=True)], -1)


def _meadow(x: Floats, y: Floats) -> Floats:
    hill = 0.68 + 0.04 * np.sin(2 * np.pi * x)
    sky = _blend(y / 0.7, (110, 190, 250), (205, 236, 255))
    grass = _blend((y - 0.6) / 0.4, (120, 200, 80), (60, 150, 50))
    return np.where((y > hill)[..., None], grass, sky)


def _beach(x: Floats, y: Floats) -> Floats:
    shore = 0.74 + 0.02 * np.sin(3 * np.pi * x)
    sea = np.where((y > 0.45)[..., None], _blend((y - 0.45) / 0.3, (20, 110, 190), (70, 200, 215)),
                   _blend(y / 0.45, (120, 200, 255), (225, 244, 255)))  # fmt: skip
    return np.where((y > shore)[..., None], _blend((y - 0.7) / 0.3, (245, 225, 165), (225, 190, 120)), sea)


def _snow(x: Floats, y: Floats) -> Floats:
    hill = 0.66 + 0.05 * np.cos(2 * np.pi * x)
    sky = _blend(y / 0.7, (150, 180, 215), (215, 228, 242))
    return np.where((y > hill)[..., None], _blend((y - 0.6) / 0.4, (252, 253, 255), (222, 234, 248)), sky)


def _night(x: Floats, y: Floats) -> Floats:
    dark = _blend(y, (14, 18, 52), (46, 50, 112))
    for sx, sy, bright in np.random.default_rng(7).uniform(0.03, 0.97, (26, 3)):
        glow = np.exp(-(((x - sx) / 0.008) ** 2 + ((y - sy) / 0.008) ** 2))[..., None]
        dark += glow * (140 + 100 * bright)
    return dark


def _sunset(x: Floats, y: Floats) -> Floats:
    return _blend(y + 0 * x, (84, 48, 130), (226, 88, 110), (255, 186, 90), (255, 226, 150))


def _underwater(x: Floats, y: Floats) -> Floats:
    return _blend(y + 0.06 * np.sin(4 * np.pi * x), (110, 215, 235), (28, 130, 200), (10, 60, 130))


GROUNDS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "meadow": _meadow,
    "beach": _beach,
    "snow": _snow,
    "night": _night,
    "sunset": _sunset,
    "underwater": _underwater,
}


def _grey(pixels: Pixels) -> Floats:
    return np.asarray(Image.fromarray(pixels).convert("L"), float)


def _edges(pixels: Pixels, shorter: int) -> Floats:
    """Return how strong the edges are, from 0 to 1; their width follows the picture's shorter side."""
    picture = Image.fromarray(pixels)
    soft = picture.filter(ImageFilter.GaussianBlur(shorter / 120))
    contrast = np.abs(np.asarray(picture, float) - np.asarray(soft, float)).max(-1)
    strength: Floats = np.clip((contrast - 6) / 40, 0, 1)
    return strength


def _plain(pixels: Pixels, _: int) -> Pixels:
    return pixels


def _black_and_white(pixels: Pixels, _: int) -> Pixels:
    grey = np.clip((_grey(pixels) - 128) * 1.15 + 128, 0, 255)
    return np.repeat(grey[..., None], 3, -1).astype(np.uint8)


def block_side(shorter: int) -> int:
    """Return the side of a block of pixel art in pictures of this shorter side; it divides all offered."""
    return max(shorter // 80 * 2, 2)


def _pixel_art(pixels: Pixels, shorter: int) -> Pixels:
    """Blocks in six levels of each colour."""
    height, width = pixels.shape[:2]
    small = Image.fromarray(pixels).reduce(block_side(shorter))
    levels = (np.round(np.asarray(small, float) / 51) * 51).astype(np.uint8)
    return np.asarray(Image.fromarray(levels).resize((width, height), Image.Resampling.NEAREST))


def _pencil(pixels: Pixels, shorter: int) -> Pixels:
    """Grey lines on paper, with a little of the tone."""
    dark = np.clip(0.9 * _edges(pixels, shorter) + 0.28 * (1 - _grey(pixels) / 255), 0, 1)
    return _blend(dark, (250, 247, 240), (50, 48, 52)).astype(np.uint8)


def _blueprint(pixels: Pixels, shorter: int) -> Pixels:
    """White lines on blue paper with a grid."""
    height, width = pixels.shape[:2]
    cell = shorter / 12
    lines = ((np.arange(height)[:, None] % cell) < 1) | ((np.arange(width)[None, :] % cell) < 1)
    light = np.clip(0.16 * lines + _edges(pixels, shorter), 0, 1)
    return _blend(light, (22, 62, 140), (240, 246, 255)).astype(np.uint8)


STYLES: dict[str, Callable[[Pixels, int], Pixels]] = {
    "": _plain,
    "black and white": _black_and_white,
    "pixel art": _pixel_art,
    "pencil sketch": _pencil,
    "blueprint": _blueprint,
}
"""Every style changes the pixels of a picture, or of a part of one, whose shorter side is given."""
