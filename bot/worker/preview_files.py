"""Previews as files: the only pictures of an image that leave the worker before it is finished."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import PIL.Image

from bot.domain.jobs import Claim
from bot.process.threads import Threads
from bot.telemetry.metrics import WorkerMetrics
from bot.worker.held_image import HeldImage

log = logging.getLogger(__name__)

COARSE_SIDE = 16  # pixels: enough for shapes and colours, too few for a body
QUALITY = 80
PREVIEW_SECONDS = 0.5  # how long a heartbeat waits for the files of previews


class PreviewFiles:
    """Makes files of the newest previews; `may_cover` says whether those of an image must be coarse."""

    def __init__(self, may_cover: Callable[[Claim], bool], metrics: WorkerMetrics) -> None:
        self._may_cover = may_cover
        self._metrics = metrics
        self._threads = Threads("previews", most=1)

    async def take(self, images: Iterable[HeldImage]) -> dict[Claim, bytes]:
        """Return the files of the previews that are new since the last heartbeat; none if they take long."""
        taken = ((held.claim, held.take_preview()) for held in images)
        new = {claim: pixels for claim, pixels in taken if pixels is not None}
        coarse = {claim for claim in new if self._may_cover(claim)}

        def encode() -> dict[Claim, bytes]:
            return {claim: encode_preview(pixels, coarse=claim in coarse) for claim, pixels in new.items()}

        try:
            return await self._threads.run_within(PREVIEW_SECONDS, encode) if new else {}
        except TimeoutError:  # the machine is busy
            self._metrics.previews_late.inc()
        except Exception:  # the leases are more important
            log.exception("encoding previews failed")
        return {}


def encode_preview(pixels: npt.NDArray[np.uint8], *, coarse: bool) -> bytes:
    """Return a WebP file of uint8 pixels (height, width, 3).

    A `coarse` preview has at most 16 pixels a side: the safety checker sees finished pictures only, so a
    preview must not show what the checker would have withheld.
    """
    picture = PIL.Image.fromarray(pixels)
    if coarse:
        scale = COARSE_SIDE / max(picture.size)
        size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        picture = picture.resize(size, PIL.Image.Resampling.BOX)
    file = io.BytesIO()
    picture.save(file, format="WEBP", quality=QUALITY)
    return file.getvalue()
