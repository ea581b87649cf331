"""The export of a person's data: what it says, and its parts."""

from __future__ import annotations

import gc
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa
from recipes import job_of, origin, recipe

from bot.domain.file_states import FileState
from bot.domain.jobs import Job, State
from bot.files import Artifacts, Files
from bot.front.results.export import PAGE_JOBS, Part, Position, described, export_part, files_of, moderated
from bot.provenance.signing import Signing
from bot.store import Store
from bot.store.rows.audit import Act, Entry
from bot.store.rows.jobs import recipe_values
from bot.store.rows.restrictions import Kind, Restriction, Scope
from bot.store.tables.queue import files, images, jobs

MINA, OMAR = 11, 12


async def painted(store: Store, artifacts: Artifacts, number: int, *sizes: int, user_id: int = MINA) -> Job:
    """A finished job with a file of each of these sizes."""
    where = origin(number, user_id=user_id)
    await store.jobs.enqueue(recipe(prompt=f"boat {number}", variants=len(sizes)), where)
    files = Files(store.files, artifacts)
    for claim, size in zip(await store.leases.claim("w", limit=9, ttl=60.0), sizes, strict=True):
        name = await files.keep(f"{claim.image_id} ".encode().ljust(size, b"."), ".png")
        job = await store.leases.complete(claim, artifact=name, seconds=1.0)
    return job


async def parts(store: Store, artifacts: Artifacts, limit: int) -> list[Part]:
    """All parts of Mina's export."""
    found: list[Part] = []
    begin: Position | None = None
    while not found or begin is not None:
        part = await export_part(store, artifacts, Signing(), MINA, begin=begin, limit=limit)
        assert len(part.archive) <= limit
        begin = part.rest
        found.append(part)
    return found


def unpacked(part: Part) -> tuple[list[dict[str, Any]], list[str]]:
    """The requests of a part, and the names of its pictures."""
    archive = zipfile.ZipFile(io.BytesIO(part.archive))
    assert archive.testzip() is None
    names = archive.namelist()
    said = [each for name in names if name.startswith("requests") for each in json.loads(archive.read(name))]
    return said, [name for name in names if name.endswith(".png")]


async def test_every_request_and_file_is_in_a_part_and_no_part_is_larger_than_its_limit(
    store: Store, artifacts: Artifacts
) -> None:
    made = [await painted(store, artifacts, number, 3000, 3000, 3000) for number in range(1, 6)]
    await painted(store, artifacts, 9, 100, user_id=OMAR)
    found = [unpacked(part) for part in await parts(store, artifacts, limit=20_000)]
    assert len(found) > 2
    asked = [said["prompt"] for requests, _ in found for said in requests]
    assert list(dict.fromkeys(asked)) == [f"boat {number}" for number in (5, 4, 3, 2, 1)]
    names = [name for _, pictures in found for name in pictures]
    assert sorted(names) == sorted(image.artifact or "" for job in made for image in job.images)
    for requests, pictures in found:  # a picture is beside the words of its request
        listed = {picture["file"] for said in requests for picture in said["pictures"]}
        assert set(pictures) <= listed


async def test_a_picture_that_no_part_has_room_for_is_counted_and_left_out(
    store: Store, artifacts: Artifacts
) -> None:
    job = await painted(store, artifacts, 1, 30_000, 100)
    [part] = await parts(store, artifacts, limit=20_000)
    said, names = unpacked(part)
    assert (part.too_large, names) == (1, [job.images[1].artifact])
    assert [one["prompt"] for one in said] == ["boat 1"]


async def test_requests_that_this_version_cannot_read_are_exported_as_they_are_stored(
    store: Store, artifacts: Artifacts
) -> None:
    for number in (1, 2, 3):
        await painted(store, artifacts, number, 100)
    newer = sa.text("UPDATE jobs SET recipe = replace(recipe, 'ddim', 'of 2030') WHERE interaction_id = 2")
    async with store.shared.database.write() as connection:
        await connection.execute(newer)
    [part] = await parts(store, artifacts, limit=2**20)
    said, _ = unpacked(part)
    assert [each.get("prompt", "unread") for each in said] == ["boat 3", "unread", "boat 1"]
    assert "boat 2" in said[1]["recipe"]


async def test_only_a_page_of_twenty_thousand_requests_is_in_memory(
    store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _asked_often(store, 20_000)
    page, calls, alive = store.exports.page, 0, list[int]()

    async def watched(*arguments: Any, **options: Any) -> Mapping[str, int]:
        nonlocal calls
        calls += 1
        if calls % 40 == 0:
            alive.append(sum(isinstance(each, Job) for each in gc.get_objects()))
        return await page(*arguments, **options)

    monkeypatch.setattr(store.exports, "page", watched)
    [part] = await parts(store, artifacts, limit=10 * 2**20)
    said, _ = unpacked(part)
    assert len(said) == 20_000
    assert len(alive) == 20_000 // PAGE_JOBS // 40
    assert max(alive) <= 2 * PAGE_JOBS


async def _asked_often(store: Store, count: int) -> None:
    """Store finished requests of one picture, whose files are gone."""
    values = recipe_values(recipe(prompt="a boat"))
    asked = {"interaction_token": "", "token_expires_at": 0.0, "application_id": 5, "user_id": MINA}
    asked |= {"channel_id": 31, "locale": "en-US", "private": False, "recipe": values, "state": State.DONE}
    painted = {"index": 0, "seed": 7, "lane": "demo", "steps": 20, "share": 1.0, "tag": 0.0, "step": 20}
    painted |= {"state": State.DONE, "fencing_token": 0, "worker_deaths": 0, "artifact": "aa/gone.png"}
    async with store.shared.database.write() as connection:
        ids = [(f"{number:08d}", number) for number in range(count)]
        rows = [
            {**asked, "id": job_id, "interaction_id": number, "created_at": 0.0} for job_id, number in ids
        ]
        await connection.execute(sa.insert(jobs), rows)
        gone = {"name": "aa/gone.png", "state": FileState.GONE, "changed_at": 0.0, "used_at": 0.0}
        await connection.execute(sa.insert(files).values(gone))
        await connection.execute(sa.insert(images), [{**painted, "job_id": job_id} for job_id, _ in ids])


def test_a_request_is_described_with_its_words_and_without_its_token() -> None:
    job = job_of(State.DONE, State.FAILED, recipe=recipe(prompt="그림", init_image="cc/upload.png"))
    assert files_of([job, job], sent={"cc/upload.png"}) == ["aa/0.png", "cc/upload.png"]
    said = described(job)
    assert (said["prompt"], said["started_from"]) == ("그림", ["cc/upload.png"])
    held = recipe(control_image="dd/upload.png", controlnet="canny", control_strength=0.5)
    kept = {"picture": "dd/upload.png", "network": "canny", "type": "edges", "strength": 0.5}
    assert described(job_of(State.DONE, recipe=held))["control"] == kept
    shown = recipe(image_prompt="ee/upload.png", image_prompt_strength=0.6)
    like = described(job_of(State.DONE, recipe=shown))
    assert like["image_prompt"] == {"picture": "ee/upload.png", "strength": 0.6}
    assert (like["started_from"], like["control"]) == ([], None)
    spoken = recipe(reference="ff/one.png", reference_2="ff/two.png")
    assert described(job_of(State.DONE, recipe=spoken))["references"] == ["ff/one.png", "ff/two.png"]
    assert files_of([job_of(recipe=held)], sent={"dd/upload.png"}) == ["dd/upload.png"]
    assert [(one["seed"], one["state"], one["file"]) for one in said["pictures"]] == [
        (7, "done", "aa/0.png"),
        (8, "failed", None),
    ]
    assert job.origin.interaction_token not in str(said)


def test_an_export_has_the_acts_of_moderators_without_their_names() -> None:
    block = Restriction(
        kind=Kind.BLOCK, scope=Scope(guild_id=21, user_id=12), until=86_400.0, reason="spam", by=11, at=0.0
    )
    facts: dict[str, Any] = {"at": 0.0, "guild_id": 21, "reason": "spam", "before": None, "after": {}}
    act = Entry(id=1, actor_id=11, subject_id=12, act=Act.BLOCK, **facts)
    said = moderated(12, [block], [act])
    assert said["blocks"] == [
        {
            "server": 21,
            "since": "1970-01-01T00:00:00+00:00",
            "until": "1970-01-02T00:00:00+00:00",
            "reason": "spam",
        }
    ]
    (entry,) = said["log"]
    assert (entry["act"], entry["by_you"], entry["about_you"]) == ("block", False, True)
    assert "11" not in str(entry.values())


def test_another_persons_upload_is_not_exported_with_a_repeat() -> None:
    job = job_of(State.DONE, recipe=recipe(init_image="cc/upload.png"))
    assert files_of([job], sent={"cc/other.png"}) == ["aa/0.png"]
