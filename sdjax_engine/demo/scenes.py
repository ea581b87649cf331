"""The scenes of the demo checkpoint: up to three things on a ground, in a style.

`sdjax_engine.demo.captions` describes scenes in words, `sdjax_engine.demo.drawing` paints them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from sdjax_engine.demo.objects import OBJECTS

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (222, 36, 36),
    "green": (30, 158, 54),
    "blue": (36, 72, 222),
    "yellow": (250, 218, 32),
    "purple": (132, 38, 166),
    "orange": (248, 130, 16),
    "white": (252, 252, 252),
    "black": (12, 12, 12),
    "pink": (255, 150, 196),
    "cyan": (32, 206, 222),
}
SHAPES = ("circle", "square", "triangle", "star", "heart", "ring", "moon", "cross", "diamond", "flower")
GROUNDS = ("meadow", "beach", "snow", "night", "sunset", "underwater")
"""The painted grounds; every colour is a plain one."""
STYLES = ("black and white", "pixel art", "pencil sketch", "blueprint")

Size = Literal["small", "", "large"]
Relation = Literal["", "left of", "right of", "above", "below", "between"]
SIZES: tuple[Size, ...] = ("small", "", "large")
PAIR_RELATIONS: tuple[Relation, ...] = ("left of", "right of", "above", "below")

_LINES = {1: (0.5,), 2: (0.27, 0.73), 3: (0.19, 0.5, 0.81)}
_RADII = {
    1: {"small": 0.18, "": 0.3, "large": 0.4},
    2: {"small": 0.125, "": 0.18, "large": 0.215},
    3: {"small": 0.1, "": 0.13, "large": 0.15},
}


@dataclass(frozen=True, kw_only=True)
class Thing:
    """One thing of a scene, or up to three that are equal: a shape with a colour, or an object.

    An object may have a colour too, unless it has the name of a shape: "a red heart" is the shape.
    """

    name: str
    colour: str = ""
    size: Size = ""
    count: int = 1

    @property
    def is_shape(self) -> bool:
        """Whether this is one of the ten shapes."""
        return self.colour != "" and self.name in SHAPES


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A thing at its centre (x, y), with its radius, in parts of the square in the middle of the picture."""

    thing: Thing
    place: tuple[float, float]
    radius: float

    def middle(self, size: tuple[int, int]) -> tuple[float, float]:
        """Return the centre in a picture of (width, height), in the same units.

        A longer picture has the square one in its middle, and more ground.
        """
        across, down = ((at - 0.5) * min(size) + side / 2 for at, side in zip(self.place, size, strict=True))
        return across, down


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The content of a picture. The relation is that of the first thing to the others.

    `says_ground` is False if the caption does not name the ground. The ground is then white, or black if a
    thing is white.
    """

    things: tuple[Thing, ...]
    relation: Relation = ""
    ground: str = "white"
    says_ground: bool = True
    style: str = ""

    @property
    def held_out(self) -> bool:
        """Whether this scene is held out of the training, for the checker (one in sixteen).

        The picture decides: "a cat left of a dog" is held out if "a dog right of a cat" is.
        """
        shown = repr((self.placed, self.ground, self.style))
        return hashlib.sha256(shown.encode()).digest()[0] < 16

    @property
    def of_plain_shapes(self) -> bool:
        """Whether this is one shape or two, on a plain ground in no style."""
        single = all(thing.is_shape and thing.count == 1 for thing in self.things) and len(self.things) < 3
        return single and not self.style and self.ground in COLOURS

    @property
    def placed(self) -> tuple[Placed, ...]:
        """Every single thing in its place."""
        if self.relation in ("above", "below"):
            rows = self.things if self.relation == "above" else self.things[::-1]
            across = max(2, *(thing.count for thing in rows))
            return tuple(
                Placed(thing=thing, place=(x, y), radius=_RADII[across][thing.size])
                for thing, y in zip(rows, _LINES[2], strict=True)
                for x in _LINES[thing.count]
            )
        row = [thing for thing in self._from_left for _ in range(thing.count)]
        return tuple(
            Placed(thing=thing, place=(x, 0.5), radius=_RADII[len(row)][thing.size])
            for thing, x in zip(row, _LINES[len(row)], strict=True)
        )

    @property
    def _from_left(self) -> tuple[Thing, ...]:
        if self.relation == "between":
            middle, left, right = self.things
            return (left, middle, right)
        return self.things[::-1] if self.relation == "right of" else self.things


def sample_scene(rng: np.random.Generator, *, held_out: bool = False, shapes_only: bool = False) -> Scene:
    """Return a random scene of the training set or, with `held_out`, of the held-out set."""
    while True:
        scene = _any_scene(rng, shapes_only)
        if scene.held_out == held_out:
            return scene


T = TypeVar("T")


def _pick(rng: np.random.Generator, values: Sequence[T], weights: Sequence[float] | None = None) -> T:
    return values[int(rng.choice(len(values), p=weights))]


def _any_scene(rng: np.random.Generator, shapes_only: bool) -> Scene:
    counts: tuple[int, ...] = _pick(
        rng, [(1,), (2,), (3,), (1, 1), (2, 1), (1, 2), (1, 1, 1)], [0.25, 0.06, 0.05, 0.4, 0.06, 0.06, 0.12]
    )
    style = _pick(rng, STYLES) if rng.random() < 0.35 else ""
    says_ground = bool(rng.random() < 0.7)
    ground = _pick(rng, list(COLOURS)) if rng.random() < 0.65 else _pick(rng, GROUNDS)
    if len(counts) == 1:
        relation: Relation = ""
    else:
        relation = _pick(rng, PAIR_RELATIONS) if len(counts) == 2 else "between"
    colours = [name for name in COLOURS if name != ground]
    things = tuple(_thing(rng, colours, count, shapes_only) for count in counts)
    if not says_ground:
        ground = "black" if any(thing.colour == "white" for thing in things) else "white"
    if len({(thing.name, thing.colour) for thing in things}) < len(things):
        return _any_scene(rng, shapes_only)
    if any(thing.colour == ground for thing in things):
        return _any_scene(rng, shapes_only)
    return Scene(things=things, relation=relation, ground=ground, says_ground=says_ground, style=style)


def _thing(rng: np.random.Generator, colours: Sequence[str], count: int, shapes_only: bool) -> Thing:
    size = _pick(rng, SIZES, [0.2, 0.6, 0.2])
    if shapes_only or rng.random() < 0.2:
        return Thing(name=_pick(rng, SHAPES), colour=_pick(rng, colours), size=size, count=count)
    name = _pick(rng, list(OBJECTS))
    colour = _pick(rng, colours) if rng.random() < 0.12 and name not in SHAPES else ""
    return Thing(name=name, colour=colour, size=size, count=count)
