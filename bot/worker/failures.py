"""What went wrong with an image, as the short text that is stored and later said to the person."""

from __future__ import annotations

from bot.errors import LostForGood, MissingArtifact, StoreUnavailable
from sdjax_engine.request import InvalidRequest


def failure_of(error: Exception) -> str:
    """The failure's name, which has its sentence in `bot.delivery.render.FAILURES`.

    Behind the name of an unsuited sampler stand those that do suit: `unsuited_sampler: ddim, pndm`.
    """
    if isinstance(error, InvalidRequest) and error.problem == "unsuited_sampler":
        return f"{error.problem}: {error.details['choices']}"
    if isinstance(error, InvalidRequest):
        return "invalid_request"
    if isinstance(error, LostForGood):
        return error.failure
    if isinstance(error, MissingArtifact):
        return "start_missing"
    if isinstance(error, StoreUnavailable):
        return "not_kept"
    return "painting_failed"
