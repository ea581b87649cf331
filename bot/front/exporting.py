"""All stored data of one person as a file; no Discord here."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from bot.jobs import Job
from bot.provenance.signing import Signing
from bot.store.auditing import Entry
from bot.store.moderation import Restriction

REQUESTS = "requests.json"
SETTINGS = "settings.json"
FAVOURITES = "favourites.json"
MODERATION = "moderation.json"
VOTES = "votes.json"


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
        "prompt": recipe.prompt,
        "negative_prompt": recipe.negative_prompt,
        "style": recipe.style,
        "model": recipe.model,
        "size": [recipe.width, recipe.height],
        "steps": recipe.num_inference_steps,
        "guidance": recipe.guidance_scale,
        "guidance_interval": list(recipe.guidance_interval),
        "sampler": recipe.sampler.value,
        "loras": {lora.name: lora.weight for lora in recipe.loras},
        "started_from": list(recipe.start_pictures),
        "strength": recipe.strength,
        "second_pass": None if recipe.second_pass is None else asdict(recipe.second_pass),
        "variations": [[variation.seed, variation.strength] for variation in recipe.variations],
        "pictures": [
            {
                "seed": image.seed,
                "state": image.state.value,
                "file": image.artifact,
                "level": image.notes.level.value,
                "picture_scores": None if image.notes.classified is None else image.notes.classified.by_label,
                "safety_scores": None if image.notes.safety is None else image.notes.safety.concepts,
            }
            for image in job.images
        ],
    }


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
    """Return the files of these jobs in their order: painted files, and start pictures in `sent`."""
    return list(dict.fromkeys(name for job in jobs for name in (*_painted(job), *_started(job, sent))))


def _painted(job: Job) -> list[str]:
    return [image.artifact for image in job.images if image.artifact]


def _started(job: Job, sent: Collection[str]) -> list[str]:
    return [name for name in job.recipe.start_pictures if name in sent]


def packed(
    jobs: Sequence[Job],
    files: Mapping[str, bytes],
    settings: Mapping[str, Any],
    favourites: Sequence[str],
    signing: Signing | None = None,
    *,
    moderation: Mapping[str, Any] | None = None,
    votes: Sequence[Mapping[str, Any]] = (),
) -> bytes:
    """Return a ZIP archive of jobs, saved settings, favourites, votes and `moderated` as JSON, and of files.

    Painted files are signed, and pictures that the person sent are not. May take long: call it in a thread.
    """
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        words = json.dumps([described(job) for job in jobs], ensure_ascii=False, indent=1)
        made.writestr(REQUESTS, words)
        made.writestr(SETTINGS, json.dumps(settings, ensure_ascii=False, indent=1))
        made.writestr(FAVOURITES, json.dumps(list(favourites), indent=1))
        made.writestr(MODERATION, json.dumps(moderation or {}, ensure_ascii=False, indent=1))
        made.writestr(VOTES, json.dumps([dict(vote) for vote in votes], indent=1))
        painted = {name for job in jobs for name in _painted(job)} if signing else set()
        for name, data in files.items():
            file = signing.signed(data) if signing and name in painted else data
            made.writestr(name, file, zipfile.ZIP_STORED)  # a picture is compressed already
    return archive.getvalue()
