"""The invisible watermark of a picture: TrustMark, variant P, computed in a process of its own.

Here are the picture's sides of it, as the package `trustmark` has them: the square in the middle of a picture
is made small for the networks, and the residual that they answer is made large again. The process is started
by `open`, or by the first task after it has failed, and ends when its input does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from bot.config.environment import without_secrets
from bot.domain.errors import ConfigurationError
from bot.provenance.payload import bits_of, number_in
from sdjax_engine.watermark_tasks import (
    FIND,
    FOUND_BYTES,
    PIXELS,
    PUT,
    READY,
    REFUSED,
    RESIDUAL_BYTES,
    SEEN,
)

PROGRAM = (sys.executable, "-m", "sdjax_engine.watermark")
ENVIRONMENT = {"JAX_PLATFORMS": "cpu"}  # the devices belong to the worker, and a TPU to one process
STRENGTH = 1.25  # of variant P
EDGE, MOST_EDGE = 0.01, 50  # the edge over which the mark fades in: a share of the side, and pixels
ROWS = 64  # of a picture that are changed at a time, for the memory's sake
TASK_SECONDS = 30.0  # a task takes less than a second on two cores
PIPED = "the process was started with pipes"
START_SECONDS = 600.0  # the first start may download the weights
Numbers = npt.NDArray[np.float32]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the process, without the secrets of the configuration."""
    return without_secrets(environ) | ENVIRONMENT


class WatermarkFailed(Exception):
    """The process of the watermark has ended, or has not answered in time."""


class Watermark:
    """Marks pictures with numbers and finds them, by the weights called `source`; any thread may call it.

    Tasks are done one after the other, and each has a time limit.
    """

    def __init__(self, source: str, *, seconds: float = TASK_SECONDS) -> None:
        self._source = source
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = threading.Event()

    def open(self) -> None:
        """Start the process and wait until it has read the weights; raises ConfigurationError."""
        with self._lock:
            self._started()

    def put(self, picture: PIL.Image.Image, number: int) -> None:
        """Mark an RGB picture with a number below 2^60; raises WatermarkFailed."""
        box = middle(picture.size)
        small = picture.crop(box).resize((PIXELS, PIXELS), PIL.Image.Resampling.BILINEAR)
        answer = self._ask(PUT + bytes(bits_of(number)) + small.tobytes(), RESIDUAL_BYTES)
        add(picture, np.frombuffer(answer, "<f4").reshape(PIXELS, PIXELS, 3))

    def find(self, picture: PIL.Image.Image) -> int | None:
        """Return the number in an RGB picture, None without any; raises WatermarkFailed."""
        small = picture.crop(middle(picture.size)).resize((SEEN, SEEN), PIL.Image.Resampling.BILINEAR)
        found = np.frombuffer(self._ask(FIND + small.tobytes(), FOUND_BYTES), "<f4")
        return number_in(found.tolist())

    def close(self) -> None:
        """End the process, also one that is at a task; no task is done after this."""
        self._closed.set()
        if (process := self._process) is not None:
            process.kill()  # or the lock would be waited for as long as the task takes
        with self._lock:
            self._end()

    def _ask(self, task: bytes, length: int) -> bytes:
        with self._lock:
            try:
                process = self._started()
            except (OSError, ConfigurationError) as error:
                raise WatermarkFailed(f"its process cannot be started: {error}") from error
            assert process.stdin, PIPED
            assert process.stdout, PIPED
            answer = b""
            with _Limit(process, self._seconds), suppress(OSError):
                process.stdin.write(task)
                process.stdin.flush()
                answer = process.stdout.read(length)
            if len(answer) < length:
                self._end()
                raise WatermarkFailed("its process has ended, or has taken too long")
            return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()  # one that has ended since its last task costs no picture its mark
        if self._closed.is_set():
            raise ConfigurationError("it is closed")
        self._process = process = subprocess.Popen(  # noqa: S603 - this program's own
            [*PROGRAM, self._source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(os.environ),
            start_new_session=True,  # an interrupt from the keyboard is for this process alone
        )
        assert process.stdout, PIPED
        if self._closed.is_set():  # `close` has perhaps looked for the process before there was one
            process.kill()
        with _Limit(process, START_SECONDS):
            line = process.stdout.readline()
        said: dict[str, Any] = {}
        with suppress(ValueError, TypeError):  # what libraries print while they are imported
            said = dict(json.loads(line))
        if READY not in said:
            self._end()
            reason = said.get(REFUSED, "its process has ended, as the log says")
            raise ConfigurationError(f"provenance.watermark: {reason}")
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError):
                process.communicate()


class _Limit:
    """Kills a process that is still at its task after some seconds."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._timer = threading.Timer(seconds, process.kill)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def middle(size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the largest square in the middle of a picture: left, top, right, bottom."""
    side = min(size)
    left, top = (size[0] - side) // 2, (size[1] - side) // 2
    return left, top, left + side, top + side


def add(picture: PIL.Image.Image, residual: Numbers) -> None:
    """Add a residual (256, 256, 3) of colours in [-1, 1] to the middle of an RGB picture."""
    left, top, right, _ = middle(picture.size)
    side = right - left
    rows, columns, fading = places(side), places(side), fades(side)
    for begin in range(0, side, ROWS):
        end = min(begin + ROWS, side)
        part = (left, top + begin, right, top + end)
        before = np.asarray(picture.crop(part)).astype(np.float64)
        mark = columns.along(rows.part(begin, end).along(residual, axis=0), axis=1)
        after = np.clip(mark * STRENGTH + before / 127.5 - 1, -1, 1) * 127.5 + 127.5
        share = np.where(fading < 1, fading, fading[begin:end, None])[..., None]
        mixed = share * after + (1 - share) * before
        picture.paste(PIL.Image.fromarray(mixed.astype(np.uint8)), part[:2])


@dataclass(frozen=True, kw_only=True, eq=False)
class Places:
    """For each pixel of a side, the two pixels of the residual beside it, and the share of the second."""

    first: npt.NDArray[np.intp]
    second: npt.NDArray[np.intp]
    share: Numbers

    def part(self, begin: int, end: int) -> Places:
        """Return the places of some of the pixels."""
        return Places(first=self.first[begin:end], second=self.second[begin:end], share=self.share[begin:end])

    def along(self, values: Numbers, *, axis: int) -> Numbers:
        """Return values (height, width, 3) at these places of an axis, 0 or 1."""
        weight = self.share.reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        mixed: Numbers = (
            values.take(self.first, axis) * (1 - weight) + values.take(self.second, axis) * weight
        )
        return mixed


def places(side: int) -> Places:
    """Return the places of torch's bilinear interpolation, whose pixels' outer edges fit."""
    scale = np.float32(PIXELS / side)
    at = np.maximum((np.arange(side, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5), 0)
    first = at.astype(np.intp)
    return Places(
        first=first, second=np.minimum(first + 1, PIXELS - 1), share=(at - first).astype(np.float32)
    )


def fades(side: int) -> npt.NDArray[np.float64]:
    """Return how much of the mark each pixel of a side has: less at both ends."""
    count = min(max(1, int(side * EDGE)), MOST_EDGE)
    shares = np.ones(side)
    shares[:count] = np.arange(1, count + 1) / count
    shares[side - count :] = shares[:count][::-1]
    return shares
