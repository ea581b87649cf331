"""Decodes untrusted files, each in a process of its own, one at a time."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import bot
from bot.domain.errors import UserMistake
from bot.front.uploads.decoder_program import COSTLY, MANIFEST, MARKS, MASK, PICTURE, Task
from bot.front.uploads.untrusted_picture import (
    BLACK,
    HEAVY,
    LARGE,
    LEAST_SIDE,
    MOST_ASPECT,
    SMALL,
    THIN,
    UNREADABLE_FILE,
    Limits,
    Picture,
)
from bot.provenance.inspection import Answer, Kind, Mark
from bot.provenance.start_manifests import with_manifest
from sdjax_engine.errors import InvalidRequest

log = logging.getLogger(__name__)

PROGRAM = (sys.executable, "-m", "bot.front.uploads.decoder_program")
ROOT = Path(bot.__file__).parents[1]
MIB = 1 << 20
MAX_ANSWER = 64 * MIB  # bytes; the two PNGs of the largest kept picture, 2048 x 2048, have less than half
GRACE_SECONDS = 10.0  # beyond its processor time, for a busy machine

Used = Callable[[float], None]


def _ignore(_seconds: float) -> None:
    """Do nothing."""


class Decoder:
    """Starts a process for each file. Its limits are `memory` in bytes and `seconds` of processor time.

    Every failure is a `UserMistake` or an `InvalidRequest` that names the file as `what`.
    """

    def __init__(self, *, limits: Limits, memory: int, seconds: int) -> None:
        self._limits = limits
        self._memory = memory
        self._seconds = seconds
        self._free = asyncio.Semaphore(1)

    async def picture(
        self, data: bytes, *, what: str, used: Used = _ignore, background: str = "white"
    ) -> Picture:
        """Return the picture in `data`, cleaned; `used` is told the processor seconds, also of a failure.

        Transparent pixels have the colour `background`.
        """
        answer, files = await self._decode(PICTURE, data, what, used, background)
        mask = files[1] if len(files) > 1 else None
        return Picture(png=files[0], width=answer["width"], height=answer["height"], mask=mask)

    async def mask(self, data: bytes, *, what: str, used: Used = _ignore) -> bytes:
        """Return the mask in `data` as a grey PNG; `used` as in `picture`."""
        _, (mask,) = await self._decode(MASK, data, what, used)
        return mask

    async def with_manifest(
        self, picture: Picture, data: bytes, *, what: str, used: Used = _ignore
    ) -> Picture:
        """Return the cleaned picture of a file with the file's manifest, if that is to be kept."""
        if b"jumd" not in data:  # the boxes of a manifest
            return picture
        try:
            _, found = await self._decode(MANIFEST, data, what, used)
        except (InvalidRequest, UserMistake):
            return picture
        return replace(picture, png=with_manifest(picture.png, found[0])) if found else picture

    async def marks(self, data: bytes, *, what: str, used: Used = _ignore) -> tuple[list[Mark], str]:
        """Return the marks of AI in a file, and its `digest_of`; none where reading them fails.

        `used` as in `picture`.
        """
        try:
            answer, _ = await self._decode(MARKS, data, what, used)
        except (InvalidRequest, UserMistake):
            return [], ""
        marks = [Mark(kind=Kind(kind), says=Answer(says)) for kind, says in answer["marks"]]
        return marks, answer["digest"]

    def mistake(self, problem: str, *, what: str) -> UserMistake | InvalidRequest:
        """Return the error for a person about a problem with a file."""
        if problem == HEAVY:
            return UserMistake(HEAVY, what=what, limit=f"{self._limits.max_bytes / MIB:.4g}")
        if problem == LARGE:
            return UserMistake(LARGE, what=what, limit=f"{self._limits.max_pixels / 1e6:.4g}")
        if problem == SMALL:
            return UserMistake(SMALL, what=what, limit=LEAST_SIDE)
        if problem == THIN:
            return UserMistake(THIN, what=what, limit=MOST_ASPECT)
        if problem in (UNREADABLE_FILE, BLACK):
            return InvalidRequest(problem, what=what)
        return UserMistake(COSTLY, what=what)

    async def _decode(
        self, kind: str, data: bytes, what: str, used: Used, background: str = "white"
    ) -> tuple[dict[str, Any], list[bytes]]:
        task = Task(
            kind=kind,
            max_bytes=self._limits.max_bytes,
            max_pixels=self._limits.max_pixels,
            memory=self._memory,
            seconds=self._seconds,
            background=background,
        )
        async with self._free:
            answer, files = await self._answer(task, data)
        used(
            min(answer.get("seconds", math.inf), self._seconds)
        )  # a process that was killed has said nothing
        if problem := answer.get("problem"):
            raise self.mistake(problem, what=what)
        return answer, files

    async def _answer(self, task: Task, data: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """Return the answer of the process; if it ends without one, the file counts as too costly."""
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",
            env={"PYTHONPATH": str(ROOT)},  # without the secrets of this process
        )
        try:
            async with asyncio.timeout(self._seconds + GRACE_SECONDS):
                whole = await _talk(process, json.dumps(asdict(task)).encode() + b"\n" + data)
                await process.wait()
        except TimeoutError:
            whole = b""
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if process.stdin is not None:
                with suppress(
                    BrokenPipeError, ConnectionResetError
                ):  # asyncio logs an error that nobody takes
                    process.stdin.close()
                    await process.stdin.wait_closed()
        head, _, rest = whole.partition(b"\n")
        if process.returncode != 0 or not head:
            log.warning("a file of a person ended its decoder with status %s", process.returncode)
            return {"problem": COSTLY}, []
        answer: dict[str, Any] = json.loads(head)
        files, at = [], 0
        for length in answer["lengths"]:
            files.append(rest[at : at + length])
            at += length
        return answer, files


async def _talk(process: asyncio.subprocess.Process, task: bytes) -> bytes:
    """Send `task` while the answer is read, up to the largest size of an answer."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process was started without pipes")
    sending = asyncio.create_task(_send(process.stdin, task), name="a file to its decoder")
    answer = bytearray()
    try:
        while len(answer) <= MAX_ANSWER and (piece := await process.stdout.read(MIB)):
            answer += piece
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    return bytes(answer)


async def _send(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # the process has read enough
        pipe.write(data)
        await pipe.drain()
        pipe.close()
        await pipe.wait_closed()
