"""What a person takes with them of what is kept."""

from __future__ import annotations

import io
import json
import zipfile

from recipes import job_of, recipe

from bot.front.exporting import FAVOURITES, REQUESTS, SETTINGS, files_of, packed
from bot.jobs import State


def test_an_export_holds_the_words_and_the_files_and_no_token() -> None:
    job = job_of(State.DONE, State.FAILED, recipe=recipe(prompt="그림", init_image="cc/upload.png"))
    assert files_of([job, job], sent={"cc/upload.png"}) == ["aa/0.png", "cc/upload.png"]
    archive = zipfile.ZipFile(io.BytesIO(packed([job], {"aa/0.png": b"a picture"}, {"steps": 9}, ["a1"])))
    assert archive.namelist() == [REQUESTS, SETTINGS, FAVOURITES, "aa/0.png"]
    assert json.loads(archive.read(SETTINGS)) == {"steps": 9}
    assert json.loads(archive.read(FAVOURITES)) == ["a1"]
    (said,) = json.loads(archive.read(REQUESTS))
    assert (said["prompt"], said["started_from"]) == ("그림", ["cc/upload.png"])
    assert [(one["seed"], one["state"], one["file"]) for one in said["pictures"]] == [
        (7, "done", "aa/0.png"),
        (8, "failed", None),
    ]
    assert job.origin.interaction_token not in archive.read(REQUESTS).decode()


def test_what_another_sent_is_not_exported_with_a_repeat_that_starts_from_it() -> None:
    job = job_of(State.DONE, recipe=recipe(init_image="cc/upload.png"))
    assert files_of([job], sent={"cc/other.png"}) == ["aa/0.png"]
