"""A refused request leaves nothing of its file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from front_tools import job_of, queued, refusal
from serving import Served, serving
from test_front_pictures import picture

from bot.config import Config
from bot.domain.errors import StoreUnavailable
from bot.files.artifacts import Artifacts
from bot.front.uploads import decoder
from bot.front.uploads.untrusted_picture import Picture
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store
from sdjax_engine.errors import InvalidRequest

Serve = Callable[[dict[str, Any]], AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(sandbox: Sandbox, store: Store, artifacts: Artifacts) -> Serve:
    """Serves the sandbox as a configuration says."""
    return lambda document: serving(sandbox, store, artifacts, Config.parse(document))


def kept_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.png"))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The files that were decoded."""
    seen: list[bytes] = []
    decode = decoder.Decoder.picture

    async def look_on(self: decoder.Decoder, data: bytes, **how: Any) -> Picture:
        seen.append(data)
        return await decode(self, data, **how)

    monkeypatch.setattr(decoder.Decoder, "picture", look_on)
    return seen


async def test_a_file_is_not_decoded_if_the_cap_of_its_sender_is_reached(
    serve: Serve, ravi: Member, decoded: list[bytes]
) -> None:
    async with serve({"queue": {"max_waiting_per_user": 1}}):
        await queued(ravi, "a boat")
        told = await refusal(ravi, await ravi.imagine(prompt="a cat", image=picture()))
        assert told.startswith("At most 1")
    assert decoded == []


async def test_requests_with_files_have_a_lower_rate_limit_and_are_not_decoded_above_it(
    serve: Serve, ravi: Member, omar: Member, decoded: list[bytes]
) -> None:
    async with serve({"limits": {"files_per_minute": 2}}):
        await refusal(ravi, await ravi.imagine(prompt="a cat", image=("no.png", b"no picture")))
        white = picture(colour=(255, 255, 255, 255))
        await queued(ravi, "a boat", image=picture(), mask=white)
        told = await refusal(ravi, await ravi.imagine(prompt="a cat", image=picture()))
        assert told.startswith("You have sent many pictures in a short time: please send this one again in ")
        await queued(ravi, "words alone")
        await queued(omar, "a tree", image=picture())
    assert len(decoded) == 3  # without the one above the limit


async def test_a_file_is_deleted_if_its_request_is_refused_by_enqueue(
    serve: Serve, store: Store, tmp_path: Path, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve({"queue": {"max_waiting_per_user": 1}}) as served:
        await queued(ravi, "a boat", image=picture())
        before = kept_files(tmp_path)

        async def nothing_seen(*_given: object, **_named: object) -> None:
            """Refuse nothing: simultaneous commands all see the last free place, and one gets it."""

        monkeypatch.setattr(store.jobs, "check_caps", nothing_seen)
        red = picture(colour=(250, 0, 0, 0))
        told = await refusal(ravi, await ravi.imagine(prompt="a cat", image=red))
        assert told.startswith("At most 1")
        assert kept_files(tmp_path) == before
        job = await job_of(store, "a boat")
        assert job.recipe.init_image is not None
        await refusal(ravi, await ravi.imagine(prompt="a cat", image=picture()))
        assert await served.artifacts.get(job.recipe.init_image)  # the waiting job starts from it


@pytest.mark.parametrize(
    "error",
    [InvalidRequest("model", value="x", choices="demo"), StoreUnavailable("the disk is full")],
    ids=["invalid", "unavailable"],
)
async def test_a_file_is_deleted_if_its_request_cannot_be_queued(
    serve: Serve,
    store: Store,
    tmp_path: Path,
    ravi: Member,
    monkeypatch: pytest.MonkeyPatch,
    *,
    error: Exception,
) -> None:
    async with serve({}):

        async def refuse(*_given: object, **_named: object) -> None:
            raise error

        monkeypatch.setattr(store.jobs, "enqueue", refuse)
        await refusal(ravi, await ravi.imagine(prompt="a cat", image=picture()))
        assert kept_files(tmp_path) == []
