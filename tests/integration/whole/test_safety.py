"""What becomes of pictures that the safety checker flags, from the engine's answer to the message."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving import Served, serving

from bot.config import Config, ModelConfig
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.component_rules import walk
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine
from sdjax_engine.request import Image, Request, SafetyScores

FLAGGED_SEED = 8
GALLERY = 12
Message = dict[str, Any]


class Judging:
    """The engine, and a safety checker that flags the pictures of one seed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._painted: dict[Future[Image], Future[Image]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def submit(self, request: Request, **options: Any) -> Future[Image]:
        painted, judged = self._engine.submit(request, **options), Future[Image]()
        self._painted[judged] = painted
        painted.add_done_callback(lambda done: judged.set_result(self._judged(done.result())))
        return judged

    def cancel(self, judged: Future[Image]) -> bool:
        return self._engine.cancel(self._painted[judged])

    def _judged(self, image: Image) -> Image:
        flagged = image.request.seed == FLAGGED_SEED
        return replace(image, safety=SafetyScores(flagged=flagged, concepts=(0.25 if flagged else -0.5,)))


@pytest.fixture
async def judged(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, tiny_engine: Engine, discord_address: object
) -> AsyncIterator[Served]:
    """The shipped bot on the sandbox, and a worker whose engine's checker flags one seed."""
    engine: Any = Judging(tiny_engine)
    worker = Worker(engine, store, artifacts, name="worker", lease_seconds=30.0)
    config = Config(models=(ModelConfig(name="tiny", sizes=("64x64",), num_inference_steps=2),))
    async with serving(sandbox, store, artifacts, config) as served:
        working = asyncio.create_task(worker.run())
        yield served
        worker.drain()
        async with asyncio.timeout(60.0):
            await working


async def painted(member: Member, channel: str, *, variants: int) -> Message:
    """The message of pictures of which the second is flagged, once it has ended."""
    await member.imagine(channel=channel, prompt="a boat", variants=variants, seed=FLAGGED_SEED - 1)
    return await member.wait_for_message(
        lambda message: "again:" in json.dumps(message["components"]), channel=channel
    )


def files_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.png"))


def galleries(message: Message) -> list[Message]:
    return [part["items"][0] for _, part in walk(message["components"]) if part["type"] == GALLERY]


def text_of(message: Message) -> str:
    return "\n".join(part["content"] for _, part in walk(message["components"]) if "content" in part)


async def test_a_flagged_picture_is_withheld_alone_its_scores_are_kept_and_its_person_is_told(
    judged: Served, mina: Member, tmp_path: Path
) -> None:
    message = await painted(mina, "art", variants=2)
    (gallery,) = galleries(message)
    assert not gallery["spoiler"]
    assert "1 picture is not shown: the safety checker found it unfit" in text_of(message)
    with sqlite3.connect(tmp_path / "queue.sqlite3") as database:
        rows = database.execute("SELECT artifact, showing, notes FROM images ORDER BY id").fetchall()
    database.close()
    assert [(artifact is None, showing) for artifact, showing, _ in rows] == [
        (False, "show"),
        (True, "withhold"),
    ]
    assert [json.loads(notes)["safety"]["concepts"] for _, _, notes in rows] == [[-0.5], [0.25]]
    assert len(files_in(tmp_path)) == 1


async def test_in_an_age_restricted_channel_it_is_covered_and_the_others_are_not(
    judged: Served, mina: Member
) -> None:
    message = await painted(mina, "nsfw-art", variants=2)
    assert [gallery["spoiler"] for gallery in galleries(message)] == [False, True]
    assert [file["filename"].startswith("SPOILER_") for file in message["attachments"]] == [False, True]
    assert "1 picture is covered" in text_of(message)
