"""The original files of a job's pictures, packed for messages; no Discord here."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.provenance.signing import Signing

OVERHEAD = 512  # bytes that an archive needs for each of its files, at most


@dataclass(frozen=True, kw_only=True)
class Packed:
    """Files by their names, in order, and how many pictures were too large for any."""

    files: Mapping[str, bytes]
    too_large: int


def packed(job_id: str, files: Sequence[bytes], *, limit: int, signing: Signing | None = None) -> Packed:
    """Return one PNG alone, or several in archives of at most `limit` bytes, numbered as in the grid; signed.

    A picture that is larger than `limit` is left out. May take long: call it in a thread.
    """
    pictures = [signing.marked(file) for file in files] if signing else files
    if len(pictures) == 1:
        fits = len(pictures[0]) <= limit
        return Packed(files={f"{job_id}.png": pictures[0]} if fits else {}, too_large=int(not fits))
    groups: list[dict[str, bytes]] = []
    room = too_large = 0
    for number, data in enumerate(pictures, start=1):
        needed = len(data) + OVERHEAD
        if needed > limit:
            too_large += 1
            continue
        if needed > room:
            groups.append({})
            room = limit
        groups[-1][f"{job_id}-{number}.png"] = data
        room -= needed
    archives = {
        f"{job_id}-{number}.zip" if len(groups) > 1 else f"{job_id}.zip": _archive(group)
        for number, group in enumerate(groups, start=1)
    }
    return Packed(files=archives, too_large=too_large)


def _archive(files: Mapping[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:  # stored: a PNG is compressed already
        for name, data in files.items():
            made.writestr(name, data)
    return archive.getvalue()
