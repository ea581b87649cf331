"""Previews: small pictures of unfinished requests, at most one for each request every few seconds."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sdjax_engine.model.latent_rgb import coloured
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.seats import Span

REMEMBERED = 9  # times; their median is how long previews take


@dataclass(kw_only=True, eq=False)
class Previews:
    """The previews of one lane: when they are due, and their pixels.

    The devices estimate the pictures of all seats together, at most every `seconds`, and less often where
    that would take more than `most_share` of the lane's time. `colours` is the map of `latent_rgb`; without
    one there are only previews that the devices decode.
    """

    seconds: float
    most_share: float
    colours: npt.NDArray[np.float64] | None = field(default=None, repr=False)
    _made_at: float = float("-inf")
    _worked: float = 0.0  # seconds of the lane since then
    _taken: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED), repr=False)
    _is_first: bool = True

    def due(
        self, spans: Iterable[Span[PendingRequest]], now: float, *, decoded: bool
    ) -> dict[int, tuple[float, float]]:
        """Return the seats to estimate after a run, with the weights of `Table.estimates`; often none.

        `decoded`: the devices make pixels of the estimates. A request that the run finishes gets its picture
        instead.
        """
        if not (decoded or self.colours is not None) or now - self._made_at < self.seconds:
            return {}
        if self._taken and self._worked * self.most_share < statistics.median(self._taken):
            return {}
        weights = {}
        for span in spans:
            if span.request.previews and not span.last and span.stop > 0:
                of_x, of_kept = span.request.prepared.estimates[span.stop - 1]
                weights[span.seat] = float(of_x), float(of_kept)
        if weights:
            self._made_at, self._worked = now, 0.0
        return weights

    def worked(self, seconds: float) -> None:
        """Count the time of a run of the lane."""
        self._worked += seconds

    def took(self, seconds: float) -> None:
        """Remember how long the devices needed for previews; the first time, which is longer, is ignored."""
        if not self._is_first:
            self._taken.append(seconds)
        self._is_first = False

    def pixels(
        self, estimates: npt.NDArray[Any], seats: Iterable[int]
    ) -> Mapping[int, npt.NDArray[np.uint8]]:
        """Return the previews (h, w, 3) of these seats from the estimates of all.

        The estimates are pixels (seats, h, w, 3) uint8 or latents (seats, h, w, c) float32.
        """
        if estimates.dtype == np.uint8:
            return {seat: np.array(estimates[seat]) for seat in seats}
        assert self.colours is not None, "without colours the devices decode"
        return {seat: coloured(estimates[seat], self.colours) for seat in seats}
