"""Previews: small pictures of what a lane has so far, at most one for each request every few seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sdjax_engine.model.latent_rgb import LatentRGB
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.seats import Span


@dataclass(kw_only=True, eq=False)
class Previews:
    """The previews of one lane: when they are due, and their pixels.

    The devices estimate the latents of all seats together, at most every `seconds`.
    """

    seconds: float
    latent_rgb: LatentRGB = field(repr=False)
    _made_at: float = float("-inf")

    def due(self, spans: Iterable[Span[PendingRequest]], now: float) -> dict[int, tuple[float, float]]:
        """Return the seats to estimate after a run, with the weights of `Table.estimates`; often none.

        A request that the run finishes gets its picture instead.
        """
        if not self.latent_rgb.known or now - self._made_at < self.seconds:
            return {}
        weights = {}
        for span in spans:
            if span.request.previews and not span.last and span.stop > 0:
                of_x, of_kept = span.request.prepared.estimates[span.stop - 1]
                weights[span.seat] = float(of_x), float(of_kept)
        if weights:
            self._made_at = now
        return weights

    def pixels(
        self, estimates: npt.NDArray[np.float32], seats: Iterable[int]
    ) -> Mapping[int, npt.NDArray[np.uint8]]:
        """Return the previews (h, w, 3) of these seats from the estimates of all, (seats, h, w, c)."""
        return {seat: self.latent_rgb.pixels(estimates[seat]) for seat in seats}
