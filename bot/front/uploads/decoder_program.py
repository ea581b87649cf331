"""The program that decodes one untrusted file: `python -m bot.front.uploads.decoder_program`.

It reads a line of JSON (`Task`) and then the file from its standard input, answers with a line of JSON and
then the PNGs, and ends. Before it reads the file it limits its own time, memory and files, and lowers its
priority. A file that breaks the decoder breaks this process alone.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import PIL.Image

from bot.front.uploads.untrusted_picture import LEAST_SIDE, SMALL, Limits, Unfit, read_mask, read_picture

PICTURE, MASK, MARKS, MANIFEST = "picture", "mask", "marks", "manifest"
COSTLY = "picture_costly"  # decoding needs more memory than the limit
NICENESS = 10
OPEN_FILES = 16
OOM_SCORE, MOST_OOM_SCORE = Path("/proc/self/oom_score_adj"), "1000"


@dataclass(frozen=True, kw_only=True)
class Task:
    """The kind of file to read, and the limits: `memory` in bytes, `seconds` of processor time.

    `background` is the colour of transparent pixels.
    """

    kind: str
    max_bytes: int
    max_pixels: int
    memory: int
    seconds: int
    background: str = "white"


def main() -> None:
    """Decode the file from standard input within the limits of its task."""
    task = Task(**json.loads(sys.stdin.buffer.readline()))
    PIL.Image.init()  # before the limits, because Pillow opens files for its formats
    restrict(task)
    answer: dict[str, object]
    files: list[bytes]
    try:
        answer, files = decode(task, sys.stdin.buffer.read(task.max_bytes + 1))
    except Unfit as error:
        answer, files = {"problem": error.problem}, []
    except MemoryError:
        answer, files = {"problem": COSTLY}, []
    answer["lengths"] = [len(file) for file in files]
    answer["seconds"] = time.process_time()
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    for file in files:
        sys.stdout.buffer.write(file)
    sys.stdout.buffer.flush()


def restrict(task: Task) -> None:
    """Limit this process; the kernel ends it when it takes more time, and first where memory runs out."""
    os.nice(NICENESS)
    with suppress(OSError):  # Linux alone has the file
        OOM_SCORE.write_text(MOST_OOM_SCORE)
    bounds = {
        resource.RLIMIT_AS: task.memory,
        resource.RLIMIT_CPU: task.seconds,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, bound in bounds.items():
        resource.setrlimit(kind, (bound, bound))


def decode(task: Task, data: bytes) -> tuple[dict[str, object], list[bytes]]:
    """Return the answer and its files: a picture's PNG and perhaps a mask, a mask, marks, a manifest."""
    limits = Limits(max_bytes=task.max_bytes, max_pixels=task.max_pixels)
    if task.kind == MASK:
        return {}, [read_mask(data, limits=limits)]
    if task.kind == MARKS:
        from bot.provenance.inspection import digest_of, marks_of  # noqa: PLC0415 - other tasks need it not

        marks = [[mark.kind, mark.says] for mark in marks_of(data)]
        return {"marks": marks, "digest": digest_of(data)}, []
    if task.kind == MANIFEST:
        from bot.provenance.start_manifests import kept_manifest  # noqa: PLC0415

        return {}, list(filter(None, [kept_manifest(data)]))
    picture = read_picture(data, limits=limits, background=task.background)
    if min(picture.width, picture.height) < LEAST_SIDE:
        raise Unfit(SMALL)
    files = [picture.png] if picture.mask is None else [picture.png, picture.mask]
    return {"width": picture.width, "height": picture.height}, files


if __name__ == "__main__":
    main()
