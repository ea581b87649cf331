"""Checks whether a picture shows a scene: its ground, its style, and each thing in its place.

The checker knows the drawn things, and no network. Around the place of each thing, the picture is compared
with every thing that the demo knows, drawn there on the scene's ground and in its style, in several sizes and
a little beside its place. The nearest must be the thing of the scene.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from sdjax_engine.demo.drawing import STYLES, Pixels, Sprites, block_side, draw, ground
from sdjax_engine.demo.objects import OBJECTS
from sdjax_engine.demo.scenes import COLOURS, GROUNDS, SHAPES, Placed, Scene, Thing

SCALES = (0.9, 0.95, 1.0, 1.05, 1.1)
SHIFTS = 7
FINALISTS = 12
FURTHEST_SHIFT = 0.06
"""The largest distance of a thing from its place in each direction, as a part of the shorter side."""
FRAME = 1.15
"""Half the side of the compared square, as a multiple of the thing's radius."""
CELLS = 28
"""Pictures are compared in squares of this many cells a side."""
GROUND_TOLERANCE = 24.0
BLOCKS = 4.0
"""Differences between the blocks of pixel art are at least this many times those within."""
OF_LINES = frozenset({"pencil sketch", "blueprint"})
"""Styles that hardly show the ground."""
IN_COLOUR = frozenset({"", "pixel art"})

Floats = npt.NDArray[np.floating]
Shift = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Which parts of a picture are right; `things` has an entry for every single thing."""

    ground: bool
    style: bool
    things: tuple[bool, ...]

    @property
    def all_right(self) -> bool:
        return self.ground and self.style and all(self.things)


def check(pixels: Pixels, scene: Scene, sprites: Sprites | None = None) -> Finding:
    """Compare a picture, uint8 `(height, width, 3)`, with the scene it should show.

    Without `sprites` of a folder only scenes of shapes can be checked, and the checker knows only shapes.
    """
    sprites = sprites or Sprites()
    return Finding(
        ground=_ground_is_right(pixels, scene),
        style=_style_is_right(pixels, scene, sprites),
        things=tuple(
            nearest_thing(Place(pixels, scene, placed, sprites)) == (placed.thing.name, placed.thing.colour)
            for placed in scene.placed
        ),
    )


class Candidate(NamedTuple):
    """A thing that may be at a place: an object, or with a colour a shape."""

    name: str
    colour: str


class Place:
    """The square around the place of a thing in a picture, and what things drawn there look like."""

    def __init__(self, pixels: Pixels, scene: Scene, placed: Placed, sprites: Sprites) -> None:
        height, width = pixels.shape[:2]
        self._shorter, self._style, self._sprites = min(width, height), scene.style, sprites
        self._painted, self._thing = Image.fromarray(pixels), placed.thing
        self._radius = placed.radius * self._shorter
        self._middle = placed.middle((width, height))
        self._behind = self._cut(Image.fromarray(ground(scene.ground, (width, height))), (0.0, 0.0))

    @property
    def candidates(self) -> list[Candidate]:
        """Every shape, and every object whose picture is there, in the colours that the style can show.

        Objects are compared as they are and in the colour of the scene's thing, and its own object in every
        colour. A style that hides colours cannot show whether an object has one: all have that of the thing.
        """
        thing, hides_colours = self._thing, self._style not in IN_COLOUR
        known = list(product(SHAPES, [thing.colour or "red"] if hides_colours else COLOURS))
        if self._sprites.folder is not None:
            coloured = "" if thing.is_shape else thing.colour
            known += product(OBJECTS, [coloured] if hides_colours else ["", coloured])
            known += [] if hides_colours else product([thing.name], COLOURS)
        return list(dict.fromkeys(Candidate(*each) for each in known))

    def drawn(self, candidate: Candidate, scale: float) -> Floats:
        """Return the cells of the square with a thing drawn in it."""
        thing = Thing(name=candidate.name, colour=candidate.colour)
        sprite = self._sprites.of(thing, self._radius * scale)
        tile = self._behind.copy()
        left, top = self._corner((0.0, 0.0))
        x, y = (round(at - side / 2) for at, side in zip(self._middle, sprite.size, strict=True))
        tile.paste(sprite, (x - left, y - top), sprite)
        return self._styled(tile)

    @property
    def empty(self) -> Floats:
        """The cells of the square with the ground alone."""
        return self._styled(self._behind)

    def seen(self, shift: Shift, reach: float) -> tuple[list[Shift], Floats]:
        """Return shifts up to `reach` around one, and the cells of the picture's squares there."""
        steps = np.linspace(-reach, reach, SHIFTS) * self._shorter
        shifts = [(shift[0] + dx, shift[1] + dy) for dx, dy in product(steps.tolist(), steps.tolist())]
        return shifts, np.stack([_cells(self._cut(self._painted, each)) for each in shifts])

    def _styled(self, tile: Image.Image) -> Floats:
        if self._style not in IN_COLOUR:  # the cells are larger than the blocks of pixel art
            tile = Image.fromarray(STYLES[self._style](np.asarray(tile), self._shorter))
        return _cells(tile)

    def _corner(self, shift: Shift) -> tuple[int, int]:
        left, top = (
            round(at + by - FRAME * self._radius) for at, by in zip(self._middle, shift, strict=True)
        )
        return left, top

    def _cut(self, picture: Image.Image, shift: Shift) -> Image.Image:
        """Return the square; beyond the picture it goes on as at the picture's edge."""
        left, top = self._corner(shift)
        side = round(2 * FRAME * self._radius)
        across = np.clip(np.arange(left, left + side), 0, picture.width - 1)
        down = np.clip(np.arange(top, top + side), 0, picture.height - 1)
        return Image.fromarray(np.asarray(picture)[down][:, across])


def nearest_thing(place: Place) -> Candidate | None:
    """Return the thing that the picture shows at a place, None if the ground alone is nearest.

    All things are compared in one size and at coarse shifts, then the nearest in more sizes and finer shifts.
    """
    known = place.candidates
    shifts, seen = place.seen((0.0, 0.0), FURTHEST_SHIFT)
    coarse = _distances(np.stack([place.drawn(candidate, 1.0) for candidate in known]), seen)
    nearest: tuple[float, Candidate | None] = (float(_distances(place.empty[None], seen).min()), None)
    for index in coarse.min(1).argsort()[:FINALISTS]:
        _, closer = place.seen(shifts[int(coarse[index].argmin())], 2 * FURTHEST_SHIFT / (SHIFTS - 1))
        drawn = np.stack([place.drawn(known[index], scale) for scale in SCALES])
        nearest = min(
            nearest, (float(_distances(drawn, closer).min()), known[index]), key=lambda found: found[0]
        )
    return nearest[1]


def _distances(drawn: Floats, seen: Floats) -> Floats:
    """Return the squared distance of each drawn square to each seen one: (drawn, seen)."""
    squares: Floats = np.square(drawn).sum(1)[:, None] - 2 * drawn @ seen.T + np.square(seen).sum(1)
    return squares


def _cells(picture: Image.Image) -> Floats:
    small = picture.resize((CELLS, CELLS), Image.Resampling.BOX)
    return np.asarray(small, np.float32).ravel() / 255


def _ground_is_right(pixels: Pixels, scene: Scene) -> bool:
    height, width = pixels.shape[:2]
    y, x = np.mgrid[:height, :width] + 0.5
    free = np.ones((height, width), bool)
    for placed in scene.placed:
        across, down = placed.middle((width, height))
        distance = np.hypot(x - across, y - down)
        free &= distance > (1.45 * placed.radius + 0.02) * min(width, height)
    if not free.any():
        return True
    painted, change = pixels[free].astype(float), STYLES[scene.style]
    distances = {
        name: np.abs(painted - change(ground(name, (width, height)), min(width, height))[free]).mean()
        for name in (*COLOURS, *GROUNDS)
    }
    if scene.style in OF_LINES:
        return bool(distances[scene.ground] < GROUND_TOLERANCE)
    return min(distances, key=lambda name: distances[name]) == scene.ground


def _style_is_right(pixels: Pixels, scene: Scene, sprites: Sprites) -> bool:
    """Compare blocks of the picture with the scene in every style; pixel art has straight edges besides."""
    height, width = pixels.shape[:2]
    if scene.style == "pixel art" and _blockiness(pixels) < BLOCKS:
        return False
    plain = Scene(things=scene.things, relation=scene.relation, ground=scene.ground)
    drawn = np.asarray(draw(plain, sprites, size=(width, height)))
    seen = _blocks(pixels)
    distances = {
        style: np.square(_blocks(change(drawn, min(width, height))) - seen).mean()
        for style, change in STYLES.items()
        if style != "pixel art"
    }
    expected = distances["" if scene.style == "pixel art" else scene.style]
    return bool(expected <= min(distances.values()))


def _blocks(pixels: Pixels) -> Floats:
    return np.asarray(Image.fromarray(pixels).reduce(8), np.float32)


def _blockiness(pixels: Pixels) -> float:
    """Return how many times as strong differences between the blocks of pixel art are as within."""
    block = block_side(min(pixels.shape[:2]))
    across = np.abs(np.diff(pixels.astype(float), axis=1)).mean((0, 2))
    between = np.arange(1, len(across) + 1) % block == 0
    return float(across[between].mean() / (across[~between].mean() + 0.1))
