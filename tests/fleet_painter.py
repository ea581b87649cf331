"""The shipped command with an engine that paints at a set pace, for tests of many workers on few cores.

The engine reports an image before its first step, and from then on a drain lets the image finish. When that
step is done, the engine writes the image's seed and its process into the file `begun` of the cache folder.
The first process that then removes the file `hang` of that folder has devices that hang.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bot.app import worker
from bot.cli.main import main as command_line
from bot.config import Config
from sdjax_engine.errors import EngineClosed
from sdjax_engine.request import Image, Lane, Progress, Request
from sdjax_engine.scheduler.lane_queue import Sums
from sdjax_engine.scheduler.thread import HANGING

SEATS = 2
SECONDS_PER_STEP = 0.02


class PacedEngine:
    """An engine with SEATS seats in each lane, in which an image takes its steps at a set pace."""

    run_sums = Sums()
    memory_in_use = 0

    def __init__(self, config: Config) -> None:
        self.lanes = self.ready_lanes = tuple(
            Lane(model=model.name, height=height, width=width, guided=True)
            for model in config.models
            for width, height in model.offer.sizes
        )
        self._begun = Path(config.engine.cache_dir, "begun")
        self._seats = {lane: threading.Semaphore(SEATS) for lane in self.lanes}
        self._unwanted: set[Future[Image]] = set()
        self._hanging = threading.Event()

    def capacity(self, _lane: Lane) -> int:
        return SEATS

    def wait_until_ready(self, _timeout: float | None = None) -> bool:
        return True

    def prepare_no_more(self) -> None:
        pass

    def checks_pictures(self, _model: str) -> bool:
        return False

    def classifies_pictures(self, _model: str) -> bool:
        return False

    def submit(
        self, request: Request, *, on_progress: Callable[[Progress], None], **_options: Any
    ) -> Future[Image]:
        if self._hanging.is_set():
            raise EngineClosed(HANGING)
        future: Future[Image] = Future()
        threading.Thread(target=self._paint, args=(request, future, on_progress), daemon=True).start()
        return future

    def cancel(self, future: Future[Image]) -> bool:
        self._unwanted.add(future)
        return future.cancel()

    def close(self, *, drain: bool) -> None:
        pass

    def _paint(
        self, request: Request, future: Future[Image], on_progress: Callable[[Progress], None]
    ) -> None:
        with self._seats[request.lane]:
            if not future.set_running_or_notify_cancel():
                return
            steps = request.num_inference_steps
            for step in range(steps):
                on_progress(Progress(step=step, steps=steps))
                time.sleep(SECONDS_PER_STEP)
                if future in self._unwanted:
                    return
                if step == 0:
                    self._note(request)
                if self._hangs():
                    future.set_exception(EngineClosed(HANGING))
                    return
            pixels = np.full((request.height, request.width, 3), request.seed % 256, np.uint8)
            future.set_result(Image(request=request, pixels=pixels, seconds=steps * SECONDS_PER_STEP))

    def _hangs(self) -> bool:
        with suppress(FileNotFoundError):
            self._begun.with_name("hang").unlink()
            self._hanging.set()
        return self._hanging.is_set()

    def _note(self, request: Request) -> None:
        with self._begun.open("a") as file:
            file.write(f"{request.seed} {os.getpid()}\n")


def main() -> None:
    """Be the shipped command with this engine."""
    worker.open_engine = lambda config, _report: PacedEngine(config)  # type: ignore[assignment,return-value]
    worker.read_defaults = lambda config, _report: config
    worker.device_kind = lambda: "cpu"
    command_line()
