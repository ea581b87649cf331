"""The decoding of finished pictures, and their way to the host.

XLA's client for the CPU runs the programs that one thread has queued one after the other on a device,
whatever they depend on, and those of different threads in parallel. Denoising and decoding each leave cores
idle: running them at the same time uses both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.compiling.compiler import Program
from sdjax_engine.compiling.per_device import Shares, call_on
from sdjax_engine.daemon_thread import DaemonThread
from sdjax_engine.denoising.traced import Decoded
from sdjax_engine.lane.runs import are_ready
from sdjax_engine.lane.verdicts import Verdicts, read_safety_scores
from sdjax_engine.memory import devices
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.model.picture_classifier import PictureClassifier

Latents = jax.Array | npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """A decoded picture, being copied to the host; every array has one row, `latents` are (1, h, w, c).

    `probabilities` are those of the `classifier`; without one both are None.
    """

    latents: Latents = field(repr=False)
    pixels: jax.Array = field(repr=False)
    finite: jax.Array = field(repr=False)
    scores: jax.Array = field(repr=False)
    probabilities: jax.Array | None = field(default=None, repr=False)
    classifier: PictureClassifier | None = field(default=None, repr=False)

    @property
    def ready(self) -> bool:
        """Whether the devices have decoded and judged it."""
        return are_ready([self.pixels, self.finite, self.scores, self.probabilities])

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


class DecodeThread:
    """Calls programs in a thread of its own, one after the other; the thread ends with this object."""

    def __init__(self) -> None:
        self._thread = DaemonThread("sdjax-decode")

    def __call__(self, program: Callable[..., Any], *arguments: Any) -> Any:
        """Call a program in the thread; returns its result or raises its error."""
        return self._thread.submit(program, *arguments).result()


def call_directly(program: Callable[..., Any], *arguments: Any) -> Any:
    """Queue a program from the caller's thread: an accelerator has one queue for all threads."""
    return program(*arguments)


@dataclass(kw_only=True, eq=False)
class DecodingQueue:
    """Queues the decoding of a model's pictures; on a CPU beside the other programs."""

    model: LoadedModel
    _call: Callable[..., Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Make the thread that decodes on a CPU."""
        self._call = DecodeThread() if self.in_parallel else call_directly

    @property
    def in_parallel(self) -> bool:
        """Whether a decoding runs at the same time as another program."""
        return devices.is_cpu(self.model.mesh)

    def queue(self, program: Program, latents: Mapping[int, Latents]) -> dict[int, Picture]:
        """Decode the latents (1, h, w, c) of each device, and start to copy the pictures to the host."""
        decoded: Mapping[int, Decoded] = self._call(
            call_on, program, list(latents), self.model.arrays.decoding, Shares(latents)
        )
        judged = self._judged(decoded)
        return {
            device: self._picture(latents[device], one, judged.get(device)) for device, one in decoded.items()
        }

    def _judged(self, decoded: Mapping[int, Decoded]) -> Shares:
        """Queue the picture classifier for the picture of each device."""
        if self.model.classifier is None:
            return Shares()
        inputs = Shares({device: each.classifier_input for device, each in decoded.items()})
        judged: Shares = self._call(self.model.classifier.queue, inputs)
        return judged

    def _picture(self, latents: Latents, decoded: Decoded, probabilities: jax.Array | None) -> Picture:
        judged = {} if probabilities is None else {"probabilities": probabilities}
        return Picture(
            latents=latents,
            classifier=self.model.classifier,
            **copied_to_host(pixels=decoded.pixels, finite=decoded.finite, scores=decoded.scores, **judged),
        )


def copied_to_host(**arrays: jax.Array) -> dict[str, jax.Array]:
    """Return the arrays, whose copies to the host have begun."""
    for array in arrays.values():
        array.copy_to_host_async()
    return arrays
