"""The original files of a job's pictures, packed for messages, and the button that sends them."""

from __future__ import annotations

import functools
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.delivery.discord_requests import MessageFile
from bot.domain.errors import MissingArtifact, UnknownJob, UserMistake
from bot.domain.jobs import Job, Showing, State, lacking
from bot.front.answers.answers import acknowledge, send_within_limits
from bot.front.answers.controls import Button
from bot.front.answers.permissions import may_repeat
from bot.front.services.request import Request
from bot.provenance.signing import Signing
from bot.texts.catalogue import Texts

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


_PNG = ".png"  # archives show nothing that a spoiler would cover


async def send_originals(request: Request, job_id: str) -> None:
    """Send the PNGs with their recipes to the person alone: one file, or archives where there are several.

    Raises UnknownJob for a job that the person may not see, UserMistake `no_picture` where files are gone,
    or `picture_held`.
    """
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    job = await services.store.jobs.get(job_id)
    if not may_repeat(request, job, privately=True):
        raise UnknownJob(job=job_id)
    files = await _files(request, job)
    texts = request.texts

    async def send(limit: int) -> None:
        made = await services.fitting.run(
            functools.partial(packed, job.id, files, limit=limit, signing=services.signing)
        )
        said = [texts.gettext("Each file holds its picture's seed and settings.")]
        if made.too_large:
            said.append(_too_large(made.too_large, texts))
        # The largest first: if its size is refused, no other was sent.
        largest = sorted(made.files.items(), key=lambda named: -len(named[1]))
        covered = any(image.showing is Showing.SPOILER for image in job.images)
        sent = [MessageFile(data, name, covered=covered and name.endswith(_PNG)) for name, data in largest]
        await request.edit(content=" ".join(said), attachments=sent[:1])
        for file in sent[1:]:
            await request.interaction.followup.send(file=file, ephemeral=True)

    await send_within_limits(request, send)


def _too_large(count: int, texts: Texts) -> str:
    return texts.ngettext(
        "{count} picture is too large for Discord.", "{count} pictures are too large for Discord.", count
    )


async def _files(request: Request, job: Job) -> list[bytes]:
    names = [image.artifact for image in job.images if image.state is State.DONE and image.artifact]
    artifacts = request.services.artifacts
    try:
        files = [await artifacts.get(name) for name in names]
    except MissingArtifact:
        files = []
    if not files:
        raise UserMistake(lacking(job.images))
    return files


CONTROLS = (Button(template=r"files:(?P<job_id>[0-9a-z]+)", act=send_originals),)
