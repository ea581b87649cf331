"""Sizes of pictures and their shapes: which offered size fits a picture, a proportion, an enlargement."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sdjax_engine.request import Offer


def nearest_size(picture: tuple[int, int], offer: Offer) -> tuple[int, int]:
    """Return the offered size with the shape nearest to a picture's; the first of several."""
    return min(offer.sizes, key=lambda size: round(abs(_difference(size, picture)), 2))


def nearest_larger(size: tuple[int, int], larger: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the one of some sizes whose number of pixels is nearest to that of `size`; None without any."""
    pixels = math.prod(size)
    return min(larger, key=lambda each: abs(math.log(math.prod(each) / max(1, pixels))), default=None)


def larger_size(size: tuple[int, int], offer: Offer) -> tuple[int, int] | None:
    """Return the next larger offered size of the same shape, or None."""
    return next(iter(offer.larger_sizes(size)), None)


def _difference(size: tuple[int, int], aspect: tuple[int, int]) -> float:
    return math.log(size[0] * aspect[1] / (size[1] * aspect[0]))
