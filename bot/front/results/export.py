"""The export of all stored data of one person, in parts that Discord takes; no Discord here."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from bot.domain.errors import MissingArtifact, StoreUnavailable
from bot.domain.holds import Ruling
from bot.domain.jobs import MASK, REFERENCES, Job, Recipe
from bot.files import Artifacts
from bot.process.threads import in_thread
from bot.provenance.signing import Signing
from bot.store import Store
from bot.store.people.preferences import Owner, Scope
from bot.store.rows.audit import Entry
from bot.store.rows.jobs import LARGEST_ID
from bot.store.rows.restrictions import Restriction

REQUESTS = "requests.json"
SETTINGS, FAVOURITES, VOTES = "settings.json", "favourites.json", "votes.json"
MODERATION, REPORTS, REVIEWS = "moderation.json", "reports.json", "reviews.json"
USAGE, SESSIONS = "usage.json", "sessions.json"

LIMIT = 10 * 2**20 - 2**18  # bytes of an archive: Discord takes files of 10 MiB
PAGE_JOBS = 100  # requests in memory at a time, and in one file of JSON
MOST_ACTS = 5000
THREAD = "exports"
_RESERVE = 1024  # bytes for the headers of one more file and of one more page
_TIMES = ("at", "created_at", "opened_at", "due_at", "decided_at", "closed_at")


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a part begins: at the request of this interaction, after so many of its files."""

    interaction_id: int
    files: int = 0

    def __str__(self) -> str:
        """Return the position as a part of a button's id."""
        return f":{self.interaction_id}:{self.files}"

    @classmethod
    def read(cls, text: str) -> Position | None:
        """Return the position that `str` wrote; None for an empty text."""
        if not text:
            return None
        _, interaction_id, files = text.split(":")
        return cls(interaction_id=min(int(interaction_id), LARGEST_ID - 1), files=int(files))


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of an export: a ZIP archive, how many pictures are too large for it, where the rest begins."""

    archive: bytes
    too_large: int
    rest: Position | None


async def export_part(
    store: Store,
    artifacts: Artifacts,
    signing: Signing,
    user_id: int,
    *,
    begin: Position | None = None,
    limit: int = LIMIT,
) -> Part:
    """Return the part of a person's export from `begin` on, with at most `limit` bytes.

    The first part, without `begin`, has all that is kept beside the requests. The requests follow with their
    files, the newest first. Painted files are signed, and pictures that the person sent are not. Only the
    archive and one page of requests are in memory. Raises StoreUnavailable.
    """
    making = _Making(artifacts, signing, limit)
    if begin is None:
        for name, value in (await sections(store, user_id)).items():
            await making.add_section(name, value)
    rest: Position | None = None
    async for request in _requests(store, user_id, begin):
        here = begin is not None and begin.interaction_id == request.interaction_id
        rest = await making.add(request, skip=begin.files if begin is not None and here else 0)
        if rest is not None:
            break
    return Part(archive=await making.close(), too_large=making.too_large, rest=rest)


async def sections(store: Store, user_id: int) -> dict[str, Any]:
    """Return what is stored of a person beside requests and pictures, as JSON values by files' names."""
    [settings] = await store.preferences.of(Owner(scope=Scope.ME, id=user_id))
    blocks = await store.moderation.of_person(user_id)
    acts = await store.moderation.entries(None, person_id=user_id, limit=MOST_ACTS)
    rows = store.exports
    return {
        SETTINGS: settings,
        FAVOURITES: await store.favourites.of(user_id),
        MODERATION: moderated(user_id, blocks, acts),
        VOTES: await store.showing.votes_of(user_id),
        REPORTS: _readable(await rows.reports(user_id)),
        REVIEWS: _readable(await rows.reviews(user_id)),
        USAGE: {"days": await rows.days(user_id), "counted": _readable(await rows.counted(user_id))},
        SESSIONS: _readable(await rows.hosted(user_id)),
    }


@dataclass(frozen=True, kw_only=True)
class _Request:
    """A request as JSON, its files in their order, and which of them were painted or are gone."""

    interaction_id: int
    text: bytes
    files: Sequence[str] = ()
    painted: Collection[str] = ()
    lost: Collection[str] = ()


async def _requests(store: Store, user_id: int, begin: Position | None) -> AsyncIterator[_Request]:
    """Yield a person's requests, the newest first; those of a newer version as they are stored."""
    older_than = None if begin is None else begin.interaction_id + 1
    while page := await store.exports.page(user_id, older_than=older_than, limit=PAGE_JOBS):
        jobs = {job.id: job for job in await store.erasure.readable(list(page))}
        rows = await store.exports.as_stored(page.keys() - jobs.keys())
        texts = await in_thread(partial(_texts, list(jobs.values()), rows), THREAD)
        sent = await store.erasure.files_sent(list(jobs))
        lost = await store.exports.lost(files_of(list(jobs.values()), sent=sent))
        for job_id, interaction_id in page.items():
            if (job := jobs.get(job_id)) is not None:
                yield _Request(
                    interaction_id=interaction_id,
                    text=texts[job_id],
                    files=files_of([job], sent=sent),
                    painted=_painted(job),
                    lost=lost,
                )
            elif job_id in texts:
                yield _Request(interaction_id=interaction_id, text=texts[job_id])
        older_than = min(page.values())


def _texts(jobs: Iterable[Job], rows: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    said = {job.id: _json(described(job)) for job in jobs}
    return said | {row["id"]: _json(row) for row in _readable(rows)}


class _Making:
    """One part in the making; whatever takes long is done in a thread."""

    def __init__(self, artifacts: Artifacts, signing: Signing, limit: int) -> None:
        self._artifacts = artifacts
        self._signing = signing
        self._limit = limit
        self._file = io.BytesIO()
        self._archive = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED)
        self._names: set[str] = set()
        self._directory = 0  # bytes that come at the end of the archive
        self._page: list[bytes] = []
        self._pending = 0  # bytes of the page, which may not get smaller
        self._pages = 0
        self.too_large = 0

    async def add_section(self, name: str, value: Any) -> None:
        """Add what is kept beside requests."""
        await in_thread(lambda: self._write(name, _json(value)), THREAD)

    async def add(self, request: _Request, *, skip: int) -> Position | None:
        """Add a request and its files after the first `skip`; return where the rest begins if it is full."""
        here, text, added = request.interaction_id, request.text, False
        if not self._fits(len(text)):
            return Position(interaction_id=here, files=skip)
        for place, name in enumerate(request.files[skip:], skip):
            done = name in self._names or name in request.lost
            if done or (data := await self._read(name, painted=name in request.painted)) is None:
                continue
            size = len(data) + len(text)
            if size + 2 * _RESERVE > self._limit:
                self.too_large += 1
                continue
            if not self._fits(size):
                if added:
                    await self._note(text)
                return Position(interaction_id=here, files=place)
            await in_thread(partial(self._write, name, data, zipfile.ZIP_STORED), THREAD)  # it is compressed
            added = True
        await self._note(text)
        return None

    async def close(self) -> bytes:
        """Return the archive."""
        if self._page or not self._pages:
            await self._turn_page()
        self._archive.close()
        return self._file.getvalue()

    def _fits(self, size: int) -> bool:
        return self._file.tell() + self._directory + self._pending + size + _RESERVE <= self._limit

    async def _read(self, name: str, *, painted: bool) -> bytes | None:
        """Return a file, marked if it was painted: marks change its length."""
        try:
            data = await self._artifacts.get(name)
        except (MissingArtifact, StoreUnavailable):
            return None
        return await in_thread(partial(self._signing.marked, data), THREAD) if painted else data

    async def _note(self, text: bytes) -> None:
        self._page.append(text)
        self._pending += len(text) + 2
        if len(self._page) == PAGE_JOBS:
            await self._turn_page()

    async def _turn_page(self) -> None:
        """Write the requests of the page: into `requests.json`, then `requests-2.json` and so on."""
        page, self._page, self._pending = self._page, [], 0
        self._pages += 1
        stem, dot, ending = REQUESTS.partition(".")
        name = REQUESTS if self._pages == 1 else f"{stem}-{self._pages}{dot}{ending}"
        await in_thread(lambda: self._write(name, b"[" + b",\n".join(page) + b"]"), THREAD)

    def _write(self, name: str, data: bytes, how: int = zipfile.ZIP_DEFLATED) -> None:
        self._archive.writestr(name, data, how)
        self._names.add(name)
        self._directory += 46 + len(name)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode(errors="backslashreplace")


def _readable(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with their times as texts."""
    return [
        {name: _time(value) if name in _TIMES and value is not None else value for name, value in row.items()}
        for row in rows
    ]


def described(job: Job) -> dict[str, Any]:
    """Return a job as JSON values for its person: words, place, time, and the outcome of each picture."""
    recipe, origin = job.recipe, job.origin
    return {
        "id": job.id,
        "asked_at": _time(job.created_at),
        "server": origin.guild_id,
        "channel": origin.channel_id,
        "message": job.message_id,
        "private": origin.private,
        "your_id": origin.user_id,
        "your_name": origin.user_name,
        "language": origin.locale,
        "state": job.state.value,
        "deleted": job.deleted_at is not None,
        "held": None if job.hold is None else {"cause": job.hold.cause.value, "rule": job.hold.rule},
        "decided": _decided(job.ruling),
        "appeal": None if job.appeal is None else job.appeal.value,
        "prompt": recipe.prompt,
        "negative_prompt": recipe.negative_prompt,
        "style": recipe.style,
        "model": recipe.model,
        "size": [recipe.width, recipe.height],
        "steps": recipe.num_inference_steps,
        "guidance": recipe.guidance_scale,
        "guidance_interval": list(recipe.guidance_interval),
        "clip_skip": recipe.clip_skip,
        "sampler": recipe.sampler.value,
        "loras": {lora.name: lora.weight for lora in recipe.loras},
        "started_from": [name for field, name in recipe.given.items() if field in ("init_image", MASK)],
        "strength": recipe.strength,
        "control": None if recipe.control_image is None else _control(recipe),
        "image_prompt": None if recipe.image_prompt is None else _image_prompt(recipe),
        "references": [name for field, name in recipe.given.items() if field in REFERENCES],
        "second_pass": None if recipe.second_pass is None else asdict(recipe.second_pass),
        "variations": [[variation.seed, variation.strength] for variation in recipe.variations],
        "pictures": [
            {
                "seed": image.seed,
                "state": image.state.value,
                "file": image.artifact,
                "int8": list(image.notes.int8),
                "level": image.notes.level.value,
                "shown": image.showing.value,
                "decided": _decided(image.ruling),
                "picture_scores": None if image.notes.classified is None else image.notes.classified.by_label,
                "safety_scores": None if image.notes.safety is None else image.notes.safety.concepts,
            }
            for image in job.images
        ],
    }


def _control(recipe: Recipe) -> dict[str, Any]:
    kept = {"network": recipe.controlnet, "type": recipe.control_type.value}
    return {"picture": recipe.control_image, **kept, "strength": recipe.control_strength}


def _image_prompt(recipe: Recipe) -> dict[str, Any]:
    return {"picture": recipe.image_prompt, "strength": recipe.image_prompt_strength}


def _decided(ruling: Ruling | None) -> dict[str, str] | None:
    return None if ruling is None else {"outcome": ruling.outcome.value, "reason": ruling.reason}


def moderated(user_id: int, blocks: Sequence[Restriction], acts: Sequence[Entry]) -> dict[str, Any]:
    """Return the blocks of a person, and what the log says of them; other people are not named."""
    return {
        "blocks": [
            {
                "server": block.scope.guild_id or None,
                "since": _time(block.at),
                "until": None if block.until is None else _time(block.until),
                "reason": block.reason,
            }
            for block in blocks
        ],
        "older_acts_left_out": len(acts) >= MOST_ACTS,
        "log": [
            {
                "server": act.guild_id or None,
                "at": _time(act.at),
                "act": act.act.value,
                "by_you": act.actor_id == user_id,
                "about_you": act.subject_id == user_id,
                "reason": act.reason,
            }
            for act in acts
        ],
    }


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def files_of(jobs: Sequence[Job], *, sent: Collection[str]) -> list[str]:
    """Return the files of these jobs in their order: painted files, and given pictures in `sent`."""
    return list(dict.fromkeys(name for job in jobs for name in (*_painted(job), *_started(job, sent))))


def _painted(job: Job) -> list[str]:
    return [image.artifact for image in job.images if image.artifact]


def _started(job: Job, sent: Collection[str]) -> list[str]:
    return [name for name in job.recipe.given.values() if name in sent]
