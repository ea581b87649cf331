"""Start-time fair queueing (Goyal, Vin and Cheng, 1996) with one number per image; no I/O.

Every image carries a tag and the smallest tags are taken first. A user's tags grow by cost / weight
with each image, so whoever asks for much is served at the same pace as the others, only longer.
Virtual time follows the tags being served; a user who comes back starts there, so the time in which
nothing was asked for earns no credit. Tags are those of an image's end, and virtual time is that of the image
being served, which makes it the self-clocked form of Golestani (1994).

What it promises: whoever comes with an image of share s while others wait sees each other user u served for
at most s + m_u first, in cost over weight, where m_u is the largest share of one of u's images; the k-th
of equal images waits for k times s + m_u. And of two users who always wait, neither is ever ahead of the
other by more than the shares of one image of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from math import fsum

SLOWED = 2.0
"""What an image costs more than its share where its user has more waiting than at full share."""


def share(cost: float, weight: float) -> float:
    """What one image of this cost moves its user's tags by.

    Raises ValueError where either is not positive: such an image would overtake all others for ever.
    """
    if not (cost > 0 and weight > 0):
        raise ValueError(f"cost {cost} and weight {weight} must be positive")
    return cost / weight


def shares(share: float, *, count: int, room: int | None) -> list[float]:
    """What each of `count` new images moves its user's tags by: more, once `room` others wait at full share.

    Nobody is refused by this, and nobody slowed for long: who waits for fewer pictures has their share again.
    """
    full = count if room is None else max(0, min(count, room))
    return [share] * full + [share * SLOWED] * (count - full)


def tag_images(*, virtual_time: float, last_tag: float, shares: Iterable[float]) -> list[float]:
    """The tags of new images of one user, in order; the last one is the user's new last tag."""
    return list(accumulate(shares, initial=max(virtual_time, last_tag)))[1:]


def advance(virtual_time: float, claimed: Iterable[float], waiting: Iterable[float]) -> float:
    """Virtual time once the tags of `claimed` are being served: it never goes back.

    Nor does it pass a tag that is still `waiting`, where a lane with room let later ones go first: whoever
    comes now would begin behind work that has not.
    """
    return max(virtual_time, min((max(claimed, default=virtual_time), *waiting)))


def refund(shares: Iterable[float]) -> float:
    """What a user's last tag goes back by for images that were asked for and never painted."""
    return fsum(shares)
