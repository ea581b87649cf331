"""What becomes of pictures that the safety checker flags, from the engine's answer to the message."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest
from results import text_of
from serving import Served, serving, working

from bot.config import Config, ModelConfig
from bot.domain.channels import ChannelKind
from bot.domain.hashes import hash_of
from bot.domain.jobs import Showing, State
from bot.domain.levels import Level
from bot.files.artifacts import Artifacts
from bot.front.moderators.policy_values import LEVELS
from bot.moderation.generosity import Treatment
from bot.moderation.pictures import PictureRules
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.sandbox.component_rules import walk
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.rows.audit import By
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine
from sdjax_engine.request import Image, PictureScores, Request, SafetyScores

CONFIG = Config(models=(ModelConfig(name="tiny", sizes=("64x64",), num_inference_steps=2),))
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
    async with serving(sandbox, store, artifacts, CONFIG) as served, working(worker):
        yield served


async def painted(member: Member, channel: str, *, variants: int) -> Message:
    """Ask for pictures of which the second is flagged; return the message once the job has ended."""
    await member.imagine(channel=channel, prompt="a boat", variants=variants, seed=FLAGGED_SEED - 1)
    return await member.wait_for_message(
        lambda message: "again:" in json.dumps(message["components"]), channel=channel
    )


def files_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.png"))


def galleries(message: Message) -> list[Message]:
    return [part["items"][0] for _, part in walk(message["components"]) if part["type"] == GALLERY]


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
    assert "1 picture is behind a spoiler" in text_of(message)


LABELS = ("drawing", "bare", "gore")
RULES = PictureRules(
    levels=dict(zip(LABELS, (Level.NONE, Level.MILD, Level.EXTREME), strict=True)),
    own=dict.fromkeys(ChannelKind, (Showing.SPOILER, Showing.WITHHOLD, Showing.WITHHOLD))
    | {ChannelKind.SPOILER: (Showing.SHOW, Showing.SPOILER, Showing.WITHHOLD)},
    mildest={ChannelKind.SPOILER: (Showing.SHOW,) * 3},
)
BY_SEED = {7: (0.9, 0.1, 0.0), 8: (0.2, 0.7, 0.1), 9: (0.1, 0.1, 0.8)}


class Classifying(Judging):
    """The engine, and a picture classifier that judges by the seed, and start pictures by brightness."""

    def classifies_pictures(self, model: str) -> bool:
        return model == "tiny"

    def judge(self, _model: str, pixels: npt.NDArray[np.uint8]) -> PictureScores:
        dark = float(pixels.mean() < 128)
        return PictureScores(labels=LABELS, probabilities=(1 - dark, 0.0, dark))

    def _judged(self, image: Image) -> Image:
        scores = PictureScores(labels=LABELS, probabilities=BY_SEED[image.request.seed])
        return replace(image, classified=scores)


@pytest.fixture
async def classified(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, tiny_engine: Engine, discord_address: object
) -> AsyncIterator[Served]:
    """The shipped bot on the sandbox, and a worker whose engine has a picture classifier."""
    engine: Any = Classifying(tiny_engine)
    worker = Worker(engine, store, artifacts, name="worker", lease_seconds=30.0, rules={"tiny": RULES})
    async with serving(sandbox, store, artifacts, CONFIG) as served, working(worker):
        yield served


async def test_spoiler_channels_have_levels_of_their_own_which_a_policy_changes(
    classified: Served, sandbox: Sandbox, mina: Member
) -> None:
    sandbox.make_spoiler_channel("general")
    sandbox.open_thread("general", "hidden")
    for channel, covered in (("general", [False]), ("art", [False, True])):
        message = await painted(mina, channel, variants=2)
        assert [gallery["spoiler"] for gallery in galleries(message)] == covered
    form = await mina.modal_of(await mina.use("policy set", what="more"))
    all_covered = str(LEVELS.index((Treatment.SPOILER,) * 3) + 1)  # after the empty choice
    await mina.message_of(await mina.submit(form, flagged_spoiler=[all_covered]))
    message = await painted(mina, "hidden", variants=3)
    assert [gallery["spoiler"] for gallery in galleries(message)] == [False, True]
    assert "2 pictures are behind a spoiler" in text_of(message)


async def test_levels_decide_tile_by_tile_and_a_picture_like_a_blocked_one_is_withheld(
    classified: Served, mina: Member
) -> None:
    message = await painted(mina, "art", variants=3)
    assert [gallery["spoiler"] for gallery in galleries(message)] == [False, True]
    assert "1 picture is behind a spoiler" in text_of(message)
    assert "1 picture is not shown: the safety checker found it unfit" in text_of(message)
    erasure = classified.store.erasure
    [job] = await erasure.readable(await erasure.job_ids_of(guild_id=GUILD_ID, limit=1))
    assert [image.notes.level for image in job.images] == [Level.NONE, Level.MILD, Level.EXTREME]
    assert [image.notes.classified is not None for image in job.images] == [True] * 3
    shown = await classified.store.known.of_job(GUILD_ID, job.id)
    assert [match.index for match in shown] == [0, 1]
    await classified.store.known.block(shown[0].hash, By(actor_id=1, guild_id=GUILD_ID))
    interaction = await mina.imagine(prompt="a boat", seed=FLAGGED_SEED - 1)
    again = await mina.message_of(interaction, lambda message: "blocked here" in text_of(message))
    said = "1 picture is not shown: it is almost identical to a picture that is blocked here."
    assert said in text_of(again)
    assert again["attachments"] == []


async def test_an_unfit_start_picture_fails_the_request_before_anything_is_painted(
    classified: Served, mina: Member
) -> None:
    for light, said in ((40, "A picture given with this request is unfit for this channel"), (200, "seed")):
        file = io.BytesIO()
        PIL.Image.new("RGB", (64, 64), (light,) * 3).save(file, "PNG")
        interaction = await mina.imagine(
            prompt="a boat", seed=FLAGGED_SEED - 1, image=("start.png", file.getvalue())
        )
        await mina.message_of(interaction, lambda message, said=said: said in text_of(message))
    erasure = classified.store.erasure
    newest, oldest = await erasure.readable(await erasure.job_ids_of(guild_id=GUILD_ID, limit=2))
    assert [image.state for image in (*newest.images, *oldest.images)] == [State.DONE, State.FAILED]
    assert oldest.images[0].furthest == 0
    [start] = [
        match
        for match in await classified.store.known.whose(GUILD_ID, hash_of(PIL.Image.open(file)), limit=5)
        if match.is_given
    ]
    assert start.job.id == newest.id
