"""The scenes of the demo checkpoint: coloured shapes, their captions and their pictures.

A scene is one shape in the middle, or two shapes beside or above each other, on a plain background.
`Scene.caption` describes it in words, `draw` paints it. The training and the checker use this module.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image

from sdjax_engine.demo.silhouettes import SHAPES, silhouette

RESOLUTION = 128
"""Side of the pictures, in pixels."""

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

Size = Literal["small", "", "large"]
Relation = Literal["", "left of", "right of", "above", "below"]
SIZES: tuple[Size, ...] = ("small", "", "large")
RELATIONS: tuple[Relation, ...] = ("left of", "right of", "above", "below")

_RADIUS_ALONE = {"small": 0.17, "": 0.27, "large": 0.38}
_RADIUS_IN_PAIR = {"small": 0.12, "": 0.165, "large": 0.21}
_FIRST_AT = {"left of": (0.27, 0.5), "right of": (0.73, 0.5), "above": (0.5, 0.27), "below": (0.5, 0.73)}
_OTHER_SIDE: dict[Relation, Relation] = {
    "left of": "right of",
    "right of": "left of",
    "above": "below",
    "below": "above",
    "": "",
}


@dataclass(frozen=True, kw_only=True)
class Thing:
    """One coloured shape of a scene."""

    shape: str
    colour: str
    size: Size = ""

    @property
    def words(self) -> str:
        return " ".join(filter(None, (self.size, self.colour, self.shape)))


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The content of a picture: one thing, or two things and the first thing's relation to the second.

    `says_background` is False if the caption does not name the background. The background is then white, or
    black if a thing is white.
    """

    things: tuple[Thing, ...]
    relation: Relation = ""
    background: str = "white"
    says_background: bool = True

    @property
    def caption(self) -> str:
        return self.worded(relation_words=self.relation)

    def worded(self, *, relation_words: str, articles: bool = True) -> str:
        """Return a caption with these words between the things, with or without articles."""
        named = [_with_article(thing.words) if articles else thing.words for thing in self.things]
        text = f" {relation_words} ".join(named)
        return f"{text} on {_with_article(self.background)} background" if self.says_background else text

    @property
    def held_out(self) -> bool:
        """Whether this scene is held out of the training, for the checker (about one in sixteen)."""
        return hashlib.sha256(self.caption.encode()).digest()[0] < 16

    @property
    def places(self) -> tuple[tuple[float, float], ...]:
        """The centre (x, y) of each thing, as fractions of the picture's side."""
        if len(self.things) == 1:
            return ((0.5, 0.5),)
        return (_FIRST_AT[self.relation], _FIRST_AT[_OTHER_SIDE[self.relation]])

    @property
    def radii(self) -> tuple[float, ...]:
        """The radius of each thing, as a fraction of the picture's side."""
        table = _RADIUS_ALONE if len(self.things) == 1 else _RADIUS_IN_PAIR
        return tuple(table[thing.size] for thing in self.things)


def sample_scene(rng: np.random.Generator, *, held_out: bool = False) -> Scene:
    """Return a random scene of the training set or, with `held_out`, of the held-out set."""
    while True:
        scene = _any_scene(rng)
        if scene.held_out == held_out:
            return scene


def _any_scene(rng: np.random.Generator) -> Scene:
    def pick(names: list[str]) -> str:
        return names[int(rng.integers(len(names)))]

    background = pick(list(COLOURS))
    says_background = bool(rng.random() < 0.75)
    others = [name for name in COLOURS if name != background]
    count = 1 if rng.random() < 0.3 else 2
    things = tuple(
        Thing(shape=pick(list(SHAPES)), colour=pick(others), size=SIZES[int(rng.integers(3))])
        for _ in range(count)
    )
    if not says_background:
        background = "black" if any(thing.colour == "white" for thing in things) else "white"
        if any(thing.colour == background for thing in things):
            return _any_scene(rng)
    relation: Relation = RELATIONS[int(rng.integers(4))] if count == 2 else ""
    return Scene(things=things, relation=relation, background=background, says_background=says_background)


def vary_caption(scene: Scene, rng: np.random.Generator) -> str:
    """Return a caption in a random wording, most often `Scene.caption`."""
    relation_words: str = scene.relation
    if relation_words in ("left of", "right of") and rng.random() < 0.15:
        relation_words = f"to the {relation_words}"
    return scene.worded(relation_words=relation_words, articles=rng.random() >= 0.1)


def _with_article(words: str) -> str:
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


def draw(
    scene: Scene, rng: np.random.Generator | None = None, *, resolution: int = RESOLUTION
) -> Image.Image:
    """Paint the scene; with `rng`, places and sizes vary a little, as in the training."""
    picture = Image.new("RGB", (resolution, resolution), COLOURS[scene.background])
    for thing, (x, y), radius in zip(scene.things, scene.places, scene.radii, strict=True):
        dx, dy, growth = (0.0, 0.0, 1.0) if rng is None else _jitter(rng)
        mask = silhouette(thing.shape, x=x + dx, y=y + dy, radius=radius * growth, resolution=resolution)
        picture.paste(COLOURS[thing.colour], (0, 0), mask)
    return picture


def _jitter(rng: np.random.Generator) -> tuple[float, float, float]:
    return rng.uniform(-0.035, 0.035), rng.uniform(-0.035, 0.035), rng.uniform(0.93, 1.07)
