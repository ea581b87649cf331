"""The export of a person's data."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from recipes import job_of, recipe

from bot.front.exporting import FAVOURITES, MODERATION, REQUESTS, SETTINGS, VOTES, files_of, moderated, packed
from bot.jobs import State
from bot.store.auditing import Act, Entry
from bot.store.moderation import Kind, Restriction, Scope


def test_an_export_holds_the_words_and_the_files_and_no_token() -> None:
    job = job_of(State.DONE, State.FAILED, recipe=recipe(prompt="그림", init_image="cc/upload.png"))
    assert files_of([job, job], sent={"cc/upload.png"}) == ["aa/0.png", "cc/upload.png"]
    archive = zipfile.ZipFile(io.BytesIO(packed([job], {"aa/0.png": b"a picture"}, {"steps": 9}, ["a1"])))
    assert archive.namelist() == [REQUESTS, SETTINGS, FAVOURITES, MODERATION, VOTES, "aa/0.png"]
    assert json.loads(archive.read(SETTINGS)) == {"steps": 9}
    assert json.loads(archive.read(FAVOURITES)) == ["a1"]
    (said,) = json.loads(archive.read(REQUESTS))
    assert (said["prompt"], said["started_from"]) == ("그림", ["cc/upload.png"])
    assert [(one["seed"], one["state"], one["file"]) for one in said["pictures"]] == [
        (7, "done", "aa/0.png"),
        (8, "failed", None),
    ]
    assert job.origin.interaction_token not in archive.read(REQUESTS).decode()


def test_an_export_has_the_acts_of_moderators_without_their_names() -> None:
    block = Restriction(
        kind=Kind.BLOCK, scope=Scope(guild_id=21, user_id=12), until=86_400.0, reason="spam", by=11, at=0.0
    )
    facts: dict[str, Any] = {"at": 0.0, "guild_id": 21, "reason": "spam", "before": None, "after": {}}
    act = Entry(id=1, actor_id=11, subject_id=12, act=Act.BLOCK, **facts)
    archive = zipfile.ZipFile(io.BytesIO(packed([], {}, {}, [], moderation=moderated(12, [block], [act]))))
    said = json.loads(archive.read(MODERATION))
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
