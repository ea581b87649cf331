"""The outlines of the ten shapes, drawn at four times the size and averaged down for soft edges."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

_OVERSAMPLING = 4
FRAME = 1.1
"""Half the side of a silhouette's picture, as a multiple of the radius: some shapes reach beyond it."""

Point = tuple[float, float]


class _Pen:
    """Draws in units of the shape's radius, with y pointing down."""

    def __init__(self, canvas: ImageDraw.ImageDraw, centre: Point, radius: float) -> None:
        self._canvas, self._centre, self._radius = canvas, centre, radius

    def polygon(self, points: list[Point]) -> None:
        (cx, cy), r = self._centre, self._radius
        self._canvas.polygon([(cx + x * r, cy + y * r) for x, y in points], fill=255)

    def disc(self, x: float, y: float, radius: float, fill: int = 255) -> None:
        (cx, cy), r = self._centre, self._radius
        left, top = cx + (x - radius) * r, cy + (y - radius) * r
        self._canvas.ellipse((left, top, left + 2 * radius * r, top + 2 * radius * r), fill=fill)


def _around(count: int, radius: float, turn: float = 0.0) -> list[Point]:
    angles = np.arange(count) * (2 * np.pi / count) - np.pi / 2 + turn
    return [(float(radius * np.cos(a)), float(radius * np.sin(a))) for a in angles]


def _circle(pen: _Pen) -> None:
    pen.disc(0, 0, 0.95)


def _square(pen: _Pen) -> None:
    pen.polygon([(-0.83, -0.83), (0.83, -0.83), (0.83, 0.83), (-0.83, 0.83)])


def _triangle(pen: _Pen) -> None:
    pen.polygon([(0, -0.95), (1.0, 0.8), (-1.0, 0.8)])


def _star(pen: _Pen) -> None:
    outer, inner = _around(5, 1.05), _around(5, 0.44, turn=np.pi / 5)
    pen.polygon([point for pair in zip(outer, inner, strict=True) for point in pair])


def _heart(pen: _Pen) -> None:
    t = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    pen.polygon([(float(a) / 16.5, -float(b) / 16.5 - 0.08) for a, b in zip(x, y, strict=True)])


def _ring(pen: _Pen) -> None:
    pen.disc(0, 0, 1.0)
    pen.disc(0, 0, 0.55, fill=0)


def _moon(pen: _Pen) -> None:
    pen.disc(0, 0, 1.0)
    pen.disc(0.5, -0.22, 0.82, fill=0)


def _cross(pen: _Pen) -> None:
    a, b = 0.32, 0.98
    pen.polygon(
        [
            (-a, -b),
            (a, -b),
            (a, -a),
            (b, -a),
            (b, a),
            (a, a),
            (a, b),
            (-a, b),
            (-a, a),
            (-b, a),
            (-b, -a),
            (-a, -a),
        ]
    )


def _diamond(pen: _Pen) -> None:
    pen.polygon([(0, -1.05), (0.72, 0), (0, 1.05), (-0.72, 0)])


def _flower(pen: _Pen) -> None:
    for x, y in _around(6, 0.62):
        pen.disc(x, y, 0.37)
    pen.disc(0, 0, 0.5)
    pen.disc(0, 0, 0.2, fill=0)


SHAPES: dict[str, Callable[[_Pen], None]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "heart": _heart,
    "ring": _ring,
    "moon": _moon,
    "cross": _cross,
    "diamond": _diamond,
    "flower": _flower,
}


def silhouette(shape: str, radius: float) -> Image.Image:
    """Return the shape's coverage as a square 8-bit picture around its centre; `radius` is in pixels."""
    side = 2 * math.ceil(FRAME * radius)
    mask = Image.new("L", (side * _OVERSAMPLING,) * 2, 0)
    middle = side * _OVERSAMPLING / 2
    SHAPES[shape](_Pen(ImageDraw.Draw(mask), (middle, middle), radius * _OVERSAMPLING))
    return mask.reduce(_OVERSAMPLING)
