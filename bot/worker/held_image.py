"""An image that a worker holds: claimed, and not recorded yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bot.domain.jobs import Claim, Showing
from bot.telemetry.tracing import Stages
from sdjax_engine.request import Image, Lane, Progress, Trouble


@dataclass(kw_only=True, eq=False)
class HeldImage:
    """One claimed image and its progress in the engine.

    `lost` is true once another worker has the lease, or the job is cancelled. `trouble` is why the engine
    retried the image; it is reset once the image is further than `furthest`, its step before the retry.
    `preview` is the newest preview, uint8 (height, width, 3), until a heartbeat takes it. The image is
    shown no more openly than `most_open`, because of its given pictures; `given_hashes` are theirs, by file.
    `device_seconds` is its part of the devices' time so far, of all devices together.
    `first_run` and `last_run` are the step and the time at the ends of its first and its newest run.
    `stages` begin with the claim. `end` is how the image has ended here: an event of the metric of images.
    """

    claim: Claim
    on_trouble: Callable[[Trouble], None] = lambda _trouble: None
    future: Future[Image] | None = None
    step: int = 0
    furthest: int = 0
    trouble: Trouble | None = None
    lost: bool = False
    seated: bool = False
    start_begun: bool = False
    in_second_pass: bool = False
    most_open: Showing = Showing.SHOW
    given_hashes: Mapping[str, int] = field(default_factory=dict)
    device_seconds: float = 0.0
    preview: npt.NDArray[np.uint8] | None = None
    clock: Callable[[], float] = time.perf_counter
    first_run: tuple[int, float] | None = None
    last_run: tuple[int, float] | None = None
    stages: Stages = field(default_factory=Stages)
    end: str = "unrecorded"

    def on_start(self) -> None:
        """Called on the engine's thread: a start picture of this image is being repainted."""
        self.start_begun = True

    def on_progress(self, progress: Progress) -> None:
        """Called on the engine's thread. The next heartbeat reads these plain attributes."""
        self.seated = True
        step = round(progress.step / progress.steps * self.claim.steps)
        if progress.trouble is not None:
            self.furthest = max(self.furthest, self.step)
            self.trouble = progress.trouble
            self.on_trouble(progress.trouble)
        elif step > self.furthest:
            self.trouble = None
        self.step, self.in_second_pass = step, progress.in_second_pass
        if progress.trouble is not None:
            self.first_run = None
        elif step > 0:
            self.last_run = step, self.clock()
            self.first_run = self.first_run or self.last_run
        self.device_seconds = progress.device_seconds
        if progress.preview is not None:
            self.preview = progress.preview
        self.stages.enter(_stage_after(progress))

    def take_preview(self) -> npt.NDArray[np.uint8] | None:
        """Return the newest preview, once."""
        preview, self.preview = self.preview, None
        return preview

    @property
    def pace(self) -> float | None:
        """The seconds of a step after the first run, whose time includes the beginning; None if not measured.

        A second pass is in another lane, so an image with two passes has no pace.
        """
        if self.in_second_pass or self.first_run is None or self.last_run is None:
            return None
        steps, seconds = (last - first for first, last in zip(self.first_run, self.last_run, strict=True))
        return seconds / steps if steps > 0 else None

    @property
    def lane(self) -> Lane:
        """The lane that the image is in: that of the second pass once the first is finished."""
        lanes = self.claim.request.lanes
        return lanes[-1] if self.in_second_pass else lanes[0]

    @property
    def begun(self) -> bool:
        """Whether the devices have worked on this image, or on a start picture of it."""
        return self.seated or self.start_begun


def _stage_after(progress: Progress) -> str:
    """Return the stage that an image is in after this progress."""
    if progress.trouble is not None:
        return "admit"  # it waits for a seat again
    if progress.step >= progress.steps:
        return "decode"
    return "second_pass" if progress.in_second_pass else "denoise"
