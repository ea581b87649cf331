"""Checks whether a picture shows a scene: background, colours, places, shapes.

Each pixel is assigned to its nearest palette colour. A thing's region is its half of the picture, or the
whole picture if the scene has one thing. The thing's outline is the part of the region that is nearer to
the thing's colour than to the background. The outline is compared with the drawn silhouette of every
shape at nearby places and sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from sdjax_engine.demo.scenes import COLOURS, RESOLUTION, Scene, Thing
from sdjax_engine.demo.silhouettes import SHAPES, silhouette

Mask = npt.NDArray[np.bool_]
Pixels = npt.NDArray[np.uint8]

SCALES = (0.85, 0.93, 1.0, 1.07, 1.16)
FURTHEST_SHIFT = 0.09
"""The largest distance of a thing from its place, as a fraction of the picture's side."""
LEAST_AREA = 0.3
"""The least area of a thing, as a fraction of the drawn silhouette's area."""

_NAMES = list(COLOURS)
_PALETTE = np.array(list(COLOURS.values()), np.float32)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Which parts of a picture are right; the tuples have one entry per thing."""

    background: bool
    colours: tuple[bool, ...]
    shapes: tuple[bool, ...]

    @property
    def all_right(self) -> bool:
        return self.background and all(self.colours) and all(self.shapes)


def check(pixels: Pixels, scene: Scene) -> Finding:
    """Compare a picture, uint8 `(128, 128, 3)`, with the scene it should show."""
    nearest = _nearest_colours(pixels)
    far_from_things = ~np.any(
        [_disc(place, 1.45 * r) for place, r in zip(scene.places, scene.radii, strict=True)], 0
    )
    found = [_find(pixels, nearest, scene, index) for index in range(len(scene.things))]
    return Finding(
        background=_majority(nearest[far_from_things]) == scene.background,
        colours=tuple(colour for colour, _ in found),
        shapes=tuple(shape for _, shape in found),
    )


def _find(pixels: Pixels, nearest: npt.NDArray[np.intp], scene: Scene, index: int) -> tuple[bool, bool]:
    """Return whether the thing's colour is in its place, and whether its outline has its shape."""
    thing, place, radius = scene.things[index], scene.places[index], scene.radii[index]
    region = _region(scene, index)
    foreground = region & (nearest != _NAMES.index(scene.background))
    near = foreground & _disc(place, radius + FURTHEST_SHIFT)
    expected = np.count_nonzero(_outlines(thing.shape, radius)[SCALES.index(1.0)])
    colour_right = near.sum() >= LEAST_AREA * expected and _majority(nearest[near]) == thing.colour
    outline = region & _nearer_to_thing(pixels, thing, scene.background)
    return bool(colour_right), _best_shape(outline, place, radius) == thing.shape


def _nearest_colours(pixels: Pixels) -> npt.NDArray[np.intp]:
    difference = pixels.astype(np.float32)[:, :, None, :] - _PALETTE
    nearest: npt.NDArray[np.intp] = np.argmin(np.square(difference).sum(-1), -1)
    return nearest


def _nearer_to_thing(pixels: Pixels, thing: Thing, background: str) -> Mask:
    colour, ground = (np.array(COLOURS[name], np.float32) for name in (thing.colour, background))
    along = (pixels.astype(np.float32) - ground) @ (colour - ground) / np.square(colour - ground).sum()
    return np.asarray(along > 0.5)


def _majority(indices: npt.NDArray[np.intp]) -> str:
    if indices.size == 0:
        return ""
    return _NAMES[int(np.bincount(indices, minlength=len(_NAMES)).argmax())]


def _grid() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    centres = (np.arange(RESOLUTION) + 0.5) / RESOLUTION
    return centres[None, :], centres[:, None]


def _disc(place: tuple[float, float], radius: float) -> Mask:
    x, y = _grid()
    return np.asarray(np.hypot(x - place[0], y - place[1]) < radius)


def _region(scene: Scene, index: int) -> Mask:
    """Return the pixels that are nearer to this thing's place than to the other thing's."""
    x, y = _grid()
    distances = [np.hypot(x - px, y - py) for px, py in scene.places]
    return np.asarray(np.argmin(distances, 0) == index)


def _best_shape(outline: Mask, place: tuple[float, float], radius: float) -> str:
    """Return the shape whose drawn silhouette has the largest intersection over union with the outline."""
    scores = {shape: _best_overlap(outline, _outlines(shape, radius), place) for shape in SHAPES}
    return max(scores, key=lambda shape: scores[shape])


def _best_overlap(outline: Mask, drawn: npt.NDArray[np.bool_], place: tuple[float, float]) -> float:
    spectrum = np.fft.rfft2(outline)
    overlap = np.fft.irfft2(spectrum * np.conj(np.fft.rfft2(drawn)), s=outline.shape)
    union = outline.sum() + drawn.sum((1, 2))[:, None, None] - overlap
    score = np.fft.fftshift(overlap / np.maximum(union, 1), axes=(1, 2))
    middle_x, middle_y = (round(part * RESOLUTION) for part in place)
    reach = round(FURTHEST_SHIFT * RESOLUTION)
    window = score[:, middle_y - reach : middle_y + reach + 1, middle_x - reach : middle_x + reach + 1]
    return float(window.max())


@cache
def _outlines(shape: str, radius: float) -> npt.NDArray[np.bool_]:
    """Return the silhouette in the picture's middle at every scale: `(scales, 128, 128)`."""
    masks = [
        np.asarray(silhouette(shape, x=0.5, y=0.5, radius=radius * scale, resolution=RESOLUTION)) > 127
        for scale in SCALES
    ]
    return np.stack(masks)
