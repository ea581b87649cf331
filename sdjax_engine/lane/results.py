"""What a lane's programs give: runs that end later, and pictures on their way to the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.lane.verdicts import Verdicts, read_safety_scores
from sdjax_engine.model.picture_classifier import PictureClassifier

Latents = jax.Array | npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """A decoded picture, being copied to the host; every array has one row, `latents` are (1, h, w, c).

    `probabilities` are those of the `classifier`; without one both are None. `programs` says which programs
    made its evaluations and decoded it, as `rows.as_text` does; it is empty where that is not known.
    """

    latents: Latents = field(repr=False)
    pixels: jax.Array = field(repr=False)
    finite: jax.Array = field(repr=False)
    scores: jax.Array = field(repr=False)
    probabilities: jax.Array | None = field(default=None, repr=False)
    classifier: PictureClassifier | None = field(default=None, repr=False)
    programs: str = ""

    def fetch(self) -> npt.NDArray[np.uint8] | None:
        """Wait for the pixels, uint8 (height, width, 3); None where the picture is not finite."""
        return np.array(np.asarray(self.pixels)[0]) if np.asarray(self.finite)[0] else None

    def fetch_latents(self) -> npt.NDArray[np.float32]:
        """Wait for the latents that it was decoded from, (h, w, c)."""
        return np.array(np.asarray(self.latents)[0])

    def fetch_verdicts(self) -> Verdicts:
        """Wait for what the safety checker and the picture classifier say."""
        scores, classified = np.asarray(self.scores)[0], None
        if self.classifier is not None and self.probabilities is not None:
            classified = self.classifier.read(np.asarray(self.probabilities)[0])
        return Verdicts(safety=read_safety_scores(scores) if scores.size else None, classified=classified)


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A run that was queued on the devices, with programs of at most so many `rows` on each."""

    done: jax.Array = field(repr=False)
    rows: int

    @property
    def ready(self) -> bool:
        """Whether the devices have finished it, so that `wait` returns at once."""
        done = cast("Any", self.done)  # jax.Array's stub leaves `is_ready` out
        return bool(done.is_deleted() or done.is_ready())

    def wait(self) -> None:
        """Return when the devices have finished it; raises their error."""
        np.asarray(self.done)


def copied_to_host(**arrays: jax.Array) -> dict[str, jax.Array]:
    """Return the arrays, whose copies to the host have begun."""
    for array in arrays.values():
        array.copy_to_host_async()
    return arrays
