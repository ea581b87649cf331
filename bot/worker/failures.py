"""The failure of an image as the short text that is stored. The person reads a sentence made from it."""

from __future__ import annotations

import json

from bot.domain.errors import LostForGood, MissingArtifact, ResultsUnavailable, StartRefused
from sdjax_engine.errors import InvalidRequest


def failure_of(error: Exception) -> str:
    """Return the failure's name, a key of `bot.delivery.result.FAILURES`.

    An unsuited sampler is followed by the samplers that suit: `unsuited_sampler: ddim, pndm`, another refused
    setting by the mistake as JSON: `invalid_request: {"problem": "steps", "value": 60, "limit": 50}`.
    """
    if isinstance(error, InvalidRequest) and error.problem == "unsuited_sampler":
        return f"{error.problem}: {error.details['choices']}"
    if isinstance(error, InvalidRequest) and error.problem in ("lora", "no_loras"):
        return "lora_not_offered"
    if isinstance(error, InvalidRequest):
        said = json.dumps({"problem": error.problem, **error.details}, default=str, ensure_ascii=False)
        return f"invalid_request: {said}"
    if isinstance(error, LostForGood | StartRefused):
        return error.failure
    if isinstance(error, MissingArtifact):
        return "start_missing"
    if isinstance(error, ResultsUnavailable):
        return "not_kept"
    return "painting_failed"
