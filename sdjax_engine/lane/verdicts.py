"""Verdicts about a picture: the safety checker's scores, or why the picture is not finite."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdjax_engine.models.safety_checker_config import CONCEPTS, is_found
from sdjax_engine.request import SafetyScores
from sdjax_engine.scores import PictureScores


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """What the safety checker and the picture classifier say; None where the model has none."""

    safety: SafetyScores | None = None
    classified: PictureScores | None = None


def read_safety_scores(scores: npt.NDArray[np.float32]) -> SafetyScores:
    """Read a row of the safety checker: its concepts, then those that call for special care."""
    concepts, special_care = scores[:CONCEPTS], scores[CONCEPTS:]
    return SafetyScores(
        flagged=bool(np.asarray(is_found(concepts)).any()),
        concepts=tuple(map(float, concepts)),
        special_care=tuple(map(float, special_care)),
    )


def why_no_picture(latents: npt.NDArray[np.float32]) -> str:
    """Return the reason, as a sentence, why latents (h, w, c) made a picture that is not finite."""
    if not np.isfinite(latents).all():
        return (
            "The steps of this picture came to values that are no numbers: "
            "another seed, sampler or guidance may work."
        )
    return "The picture decoder made values that are no numbers, in float32 too: another seed may work."
