"""Start-time fair queueing (Goyal, Vin and Cheng, 1996) with one number per image; no I/O.

Every image carries a tag and the smallest tags are taken first. A user's tags grow by cost / weight
with each image, so whoever asks for much is served at the same pace as the others, only longer.
Virtual time follows the tags being served; a user who comes back starts there, so the time in which
nothing was asked for earns no credit.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, repeat
from math import fsum


def share(cost: float, weight: float) -> float:
    """What one image of this cost moves its user's tags by.

    Raises ValueError where either is not positive: such an image would overtake all others for ever.
    """
    if not (cost > 0 and weight > 0):
        raise ValueError(f"cost {cost} and weight {weight} must be positive")
    return cost / weight


def tag_images(*, virtual_time: float, last_tag: float, share: float, count: int) -> list[float]:
    """The tags of `count` new images of one user, in order; the last one is the user's new last tag."""
    start = max(virtual_time, last_tag)
    return list(accumulate(repeat(share, count), initial=start))[1:]


def advance(virtual_time: float, claimed: Iterable[float], waiting: Iterable[float]) -> float:
    """Virtual time once the tags of `claimed` are being served: it never goes back.

    Nor does it pass a tag that is still `waiting`, where a lane with room let later ones go first: whoever
    comes now would begin behind work that has not.
    """
    return max(virtual_time, min((max(claimed, default=virtual_time), *waiting)))


def refund(shares: Iterable[float]) -> float:
    """What a user's last tag goes back by for images that were asked for and never painted."""
    return fsum(shares)
