"""Start-time fair queueing (Goyal, Vin and Cheng, 1996) with one number per image; no I/O.

Every image has a tag, and the smallest tags are served first. A user's tags grow by cost / weight with each
image, so a user who asks for much is served at the same pace as others, for longer. Virtual time follows the
tags being served. A user who returns starts at virtual time, so idle time earns no credit. Tags are finish
tags, and virtual time is the tag of the image being served: the self-clocked form of Golestani (1994).

A person who takes part in a group session has tags there apart from the person's own, as if the session's
part were another user: one of `SESSION_WEIGHT`, whatever the person's roles. So members of a session are
served at one pace, those who join late from then on, and neither the session's work nor the server's delays
the other by more than the bounds of as many users.

Bounds: when a user's image of share s arrives while others wait, each other user u is served for at most s +
m_u first, in cost over weight, where m_u is the largest share of one of u's images. The k-th of equal images
waits for k times s + m_u. Of two users who always wait, neither is ahead of the other by more than the shares
of one image of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from math import fsum

SESSION_WEIGHT = 1.0
"""The weight of every person in a group session."""
SLOWED = 2.0
"""The factor on an image's share if its user has more images waiting than have the full share."""


def share(cost: float, weight: float) -> float:
    """Return what an image of this cost adds to its user's tags.

    Raises ValueError unless both are positive: the image would overtake all others for ever.
    """
    if not (cost > 0 and weight > 0):
        raise ValueError(f"cost {cost} and weight {weight} must be positive")
    return cost / weight


def shares(share: float, *, count: int, room: int | None) -> list[float]:
    """Return what each of `count` new images adds to its user's tags: more for images beyond `room`.

    No image is refused by this, and the user has the full share again once fewer images wait.
    """
    full = count if room is None else max(0, min(count, room))
    return [share] * full + [share * SLOWED] * (count - full)


def tag_images(*, virtual_time: float, last_tag: float, shares: Iterable[float]) -> list[float]:
    """Return the tags of a user's new images, in order; the last is the user's new last tag."""
    return list(accumulate(shares, initial=max(virtual_time, last_tag)))[1:]


def advance(virtual_time: float, claimed: Iterable[float], waiting: Iterable[float]) -> float:
    """Return virtual time after the images with the tags `claimed` are served; it never goes back.

    It does not pass a tag that is still `waiting`. A lane with room may serve later tags first, and new
    images would then be tagged behind work that has not begun.
    """
    return max(virtual_time, min((max(claimed, default=virtual_time), *waiting)))


def refund(shares: Iterable[float]) -> float:
    """Return the amount to subtract from a user's last tag for images that never ran."""
    return fsum(shares)
