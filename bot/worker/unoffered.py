"""Images whose model or size has left every worker's configuration: told of at the start, failed in time."""

from __future__ import annotations

import asyncio
import logging

from bot.errors import StoreUnavailable
from bot.store.store import Store

log = logging.getLogger(__name__)

GRACE_SECONDS = 600.0  # longer than a worker takes to come back: it compiles all that it offers first


async def watch(store: Store, *, grace_seconds: float) -> None:
    """Look now and every `grace_seconds`; never at the start does anything fail, since others may yet come.

    The worker that calls this must have announced itself.
    """
    await _warn(store, grace_seconds)
    while True:
        await asyncio.sleep(grace_seconds)
        try:
            failed = await store.offers.fail_unoffered(grace=grace_seconds)
        except StoreUnavailable as error:
            log.error("images that nobody paints could not be looked for: %s", error)
            continue
        if failed:
            log.warning("%d images failed: no worker offers their model and size any more", failed)


async def _warn(store: Store, grace_seconds: float) -> None:
    try:
        lanes = await store.offers.unoffered()
    except StoreUnavailable:
        return  # the worker's own verbs say so
    if lanes:
        log.warning(
            "images wait for what no worker offers (%s): they fail unless one offers it within %d minutes",
            ", ".join(lanes),
            max(1, round(grace_seconds / 60)),
        )
