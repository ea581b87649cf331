"""The failure of an image as the short text that is stored. The person reads a sentence made from it."""

from __future__ import annotations

from bot.errors import LostForGood, MissingArtifact, ResultsUnavailable, StartRefused
from sdjax_engine.errors import InvalidRequest


def failure_of(error: Exception) -> str:
    """Return the failure's name, a key of `bot.delivery.result.FAILURES`.

    An unsuited sampler is followed by the samplers that suit: `unsuited_sampler: ddim, pndm`.
    """
    if isinstance(error, InvalidRequest) and error.problem == "unsuited_sampler":
        return f"{error.problem}: {error.details['choices']}"
    if isinstance(error, InvalidRequest):
        return "lora_not_offered" if error.problem in ("lora", "no_loras") else "invalid_request"
    if isinstance(error, LostForGood | StartRefused):
        return error.failure
    if isinstance(error, MissingArtifact):
        return "start_missing"
    if isinstance(error, ResultsUnavailable):
        return "not_kept"
    return "painting_failed"
