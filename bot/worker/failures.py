"""What went wrong with an image, as the short name that is stored and later said to the person."""

from __future__ import annotations

import errno

from sdjax_engine.request import InvalidRequest

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def failure_of(error: Exception) -> str:
    """The failure's name; every one of them has its sentence in `bot.delivery.render.FAILURES`."""
    if isinstance(error, InvalidRequest):
        return "invalid_request"
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return "disk_full"
    return "painting_failed"
