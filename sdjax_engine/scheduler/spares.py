"""Spares: what padding seats have painted before anybody asked for it.

A seat that nobody takes paints what a seated person asked for with the next seed that nobody has. A picture
depends on its request only, so when that very request comes, its spare is the answer, to the bit. Spares are
kept as latents, which are small, and decoded when they are asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sdjax_engine.model.prepare import Prepared
from sdjax_engine.request import MAX_SEED, Request

Latents = npt.NDArray[np.float32]

REACH = 9
"""How many seeds after a person's own are painted ahead: as many as one command may ask for."""


class Spares:
    """The finished spares of all lanes, at most `most`: the longest unasked for make room for new ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Request, Latents] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, request: Request) -> bool:
        return request in self._kept

    @property
    def wanted(self) -> bool:
        """Whether spares are painted at all."""
        return self._most > 0

    def keep(self, request: Request, latents: Latents) -> None:
        """Keep a finished spare, unless it is no picture."""
        if not np.isfinite(latents).all():
            return
        self._kept[request] = latents
        self._kept.move_to_end(request)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def find(self, request: Request) -> Latents | None:
        """Return the spare of this very request, which stays for others; None where there is none."""
        latents = self._kept.get(request)
        if latents is not None:
            self._kept.move_to_end(request)
        return latents


def followers(people: Sequence[Prepared], taken: Callable[[Request], bool]) -> Iterator[Prepared]:
    """Give what could be painted ahead: each person's request with the next seeds, none that is `taken`.

    The next seed of everybody comes before anybody's one after that.
    """
    given: set[Request] = set()
    for further in range(1, REACH + 1):
        for prepared in people:
            seed = (prepared.request.seed + further) % (MAX_SEED + 1)
            request = replace(prepared.request, seed=seed)
            if request not in given and not taken(request):
                given.add(request)
                yield replace(prepared, request=request)
