"""What went wrong with an image, as the short name that is stored and later said to the person."""

from __future__ import annotations

from bot.errors import StoreUnavailable
from sdjax_engine.request import InvalidRequest


def failure_of(error: Exception) -> str:
    """The failure's name; every one of them has its sentence in `bot.delivery.render.FAILURES`."""
    if isinstance(error, InvalidRequest):
        return "invalid_request"
    if isinstance(error, StoreUnavailable):
        return "not_kept"
    return "painting_failed"
