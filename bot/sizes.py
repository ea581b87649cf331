"""Sizes of pictures and their shapes: which offered size fits a picture, a proportion, an enlargement."""

from __future__ import annotations

import math

from sdjax_engine.request import Offer

SHAPE_TOLERANCE = 0.03  # between the logarithms of two proportions: 1216x832 counts as 3:2


def same_shape(size: tuple[int, int], aspect: tuple[int, int]) -> bool:
    """Return whether (width, height) `size` has about the proportions of `aspect`."""
    return abs(_difference(size, aspect)) < SHAPE_TOLERANCE


def nearest_size(picture: tuple[int, int], offer: Offer) -> tuple[int, int]:
    """Return the offered size with the shape nearest to a picture's; the first of several."""
    return min(offer.sizes, key=lambda size: round(abs(_difference(size, picture)), 2))


def larger_size(size: tuple[int, int], offer: Offer) -> tuple[int, int] | None:
    """Return the next larger offered size of the same shape, or None."""
    larger = [other for other in offer.sizes if other > size and same_shape(other, size)]
    return min(larger, default=None)


def _difference(size: tuple[int, int], aspect: tuple[int, int]) -> float:
    return math.log(size[0] * aspect[1] / (size[1] * aspect[0]))
