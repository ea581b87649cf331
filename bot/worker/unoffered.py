"""Fails images that no worker offers to paint any more, after a warning and a grace period."""

from __future__ import annotations

import asyncio
import logging

from bot.domain.errors import StoreUnavailable
from bot.store.queue.offers import Offers

log = logging.getLogger(__name__)

GRACE_SECONDS = 600.0  # longer than a worker's start, which compiles all that the worker offers


async def fail_unoffered(offers: Offers, *, grace_seconds: float) -> None:
    """Warn now, and fail unoffered images every `grace_seconds`, until cancelled.

    The calling worker must have announced its lanes. The first pass only warns: other workers may be
    starting. An image fails after one to two `grace_seconds` without an offer.
    """
    await _warn(offers, grace_seconds)
    while True:
        await asyncio.sleep(grace_seconds)
        try:
            failed = await offers.fail_unoffered(grace=grace_seconds)
        except StoreUnavailable as error:
            log.error("unoffered images could not be failed: %s", error)
            continue
        if failed:
            log.warning("%d images failed: no worker offers their model and size any more", failed)


async def _warn(offers: Offers, grace_seconds: float) -> None:
    try:
        lanes = await offers.unoffered()
    except StoreUnavailable:
        return  # other verbs of the worker log the outage
    if lanes:
        log.warning(
            "images wait for lanes that no worker offers (%s): they fail unless one offers them within %d "
            "minutes",
            ", ".join(lanes),
            max(1, round(grace_seconds / 60)),
        )
