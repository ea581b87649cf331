"""What a worker lets through: results, and the pictures that they start from."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any, cast

import numpy as np
import PIL.Image
import pytest
from recipes import RECIPE

from bot.domain.channels import ChannelKind
from bot.domain.errors import StartRefused
from bot.domain.jobs import Claim, Showing, Showings
from bot.domain.levels import Level
from bot.moderation.pictures import PictureRules
from bot.worker.given_pictures import GivenPictures
from bot.worker.judging import Judging
from sdjax_engine.engine import Engine
from sdjax_engine.request import ControlType, Image, PictureScores

SHOW, SPOILER, HOLD, WITHHOLD = Showing
LABELS = ("fine", "mild", "bad")
RULES = PictureRules(
    levels=dict(zip(LABELS, (Level.NONE, Level.MILD, Level.EXPLICIT), strict=True)),
    own={ChannelKind.PLAIN: (SPOILER, HOLD, WITHHOLD)},
    mildest={ChannelKind.PLAIN: (SHOW, SHOW, SHOW)},
)
CLAIM = Claim(
    image_id=1,
    job_id="a",
    request=RECIPE.request(0),
    steps=20,
    given={"init_image": "aa/start.png"},
    guild_id=21,
    fencing_token=1,
    expires_at=0.0,
)


class Engines:
    """An engine whose classifier says `label`, and counts how often it is asked."""

    def __init__(self, label: str = "fine", *, classifies: bool = True) -> None:
        self.label, self.classifies, self.asked = label, classifies, 0

    def checks_pictures(self, _model: str) -> bool:
        return False

    def classifies_pictures(self, _model: str) -> bool:
        return self.classifies

    def judge(self, _model: str, _pixels: Any) -> PictureScores:
        self.asked += 1
        return scores(self.label)


def scores(label: str) -> PictureScores:
    return PictureScores(labels=LABELS, probabilities=tuple(float(each == label) for each in LABELS))


START = {"aa/start.png": np.zeros((8, 8, 3), np.uint8)}


def judging(engine: Engines) -> Judging:
    return Judging(cast("Engine", engine), {CLAIM.request.model: RULES})


def shown(label: str, claim: Claim = CLAIM, least: Showing = SHOW) -> Showing:
    image = Image(
        request=claim.request, pixels=np.zeros((8, 8, 3), np.uint8), seconds=1.0, classified=scores(label)
    )
    return judging(Engines()).judge(claim, image, least).showing


def test_a_result_is_shown_by_its_level_and_no_more_openly_than_its_start_allows() -> None:
    assert [shown(label) for label in LABELS] == [SHOW, SPOILER, HOLD]
    assert [shown(label, least=HOLD) for label in LABELS] == [HOLD] * 3
    policy: Showings = (SHOW, SHOW, WITHHOLD)
    assert [shown(label, replace(CLAIM, showings=policy)) for label in LABELS] == [SHOW, SHOW, SHOW]


def test_nothing_is_held_where_there_are_no_moderators() -> None:
    assert shown("bad", replace(CLAIM, guild_id=None)) is WITHHOLD


async def test_a_start_picture_is_judged_once_for_all_images_of_its_job() -> None:
    engine = Engines()
    judge = judging(engine)
    assert [await judge.judge_given(CLAIM, START) for _ in range(3)] == [SHOW] * 3
    assert engine.asked == 1
    assert await judge.judge_given(CLAIM, {}) is SHOW
    assert await judging(Engines("bad", classifies=False)).judge_given(CLAIM, START) is SHOW


async def test_an_unfit_start_picture_is_refused_and_a_held_one_has_its_results_held() -> None:
    assert await judging(Engines("bad")).judge_given(CLAIM, START) is HOLD
    assert await judging(Engines("mild")).judge_given(CLAIM, START) is SHOW
    strict = replace(CLAIM, showings=(SHOW, WITHHOLD, WITHHOLD))
    with pytest.raises(StartRefused) as refused:
        await judging(Engines("bad")).judge_given(strict, START)
    assert refused.value.failure == "start_unfit"


async def test_a_control_picture_is_judged_as_it_was_sent_and_a_mask_is_not() -> None:
    drawn = PIL.Image.new("RGB", (40, 20), "navy")
    file = io.BytesIO()
    drawn.save(file, "PNG")
    sent = dict.fromkeys(("init_image", "mask_image", "control_image"), file.getvalue())
    request = replace(CLAIM.request, width=16, height=8, control_type=ControlType.EDGES, **sent)
    given = {"init_image": "a.png", "mask_image": "b.png", "control_image": "c.png"}
    pixels = await GivenPictures().pixels(request, given)
    assert pixels.keys() == {"a.png", "c.png"}
    assert pixels["c.png"].shape == (8, 16, 3)
    assert (pixels["c.png"] == (0, 0, 128)).all()
    with pytest.raises(StartRefused):
        await judging(Engines("bad")).judge_given(replace(CLAIM, showings=(SHOW, WITHHOLD, WITHHOLD)), pixels)


async def test_the_square_that_is_seen_of_an_image_prompt_is_judged_beside_the_start_picture() -> None:
    drawn = PIL.Image.new("RGB", (20, 40), "white")
    drawn.paste("navy", (0, 10, 20, 13))  # in the middle square, and cut off from a start picture of 16x8
    file = io.BytesIO()
    drawn.save(file, "PNG")
    sent = dict.fromkeys(("init_image", "image_prompt"), file.getvalue())
    request = replace(CLAIM.request, width=16, height=8, **sent)
    pixels = await GivenPictures().pixels(request, {"init_image": "a.png", "image_prompt": "a.png"})
    start, square = pixels.values()
    assert (start.shape, square.shape) == ((8, 16, 3), (8, 8, 3))
    assert start.min() > 200
    assert square.min() < 128


def test_previews_are_coarse_where_a_picture_may_be_covered() -> None:
    assert judging(Engines()).may_cover(CLAIM)
    assert not judging(Engines()).may_cover(replace(CLAIM, showings=(SHOW, SHOW, SHOW)))
    assert not judging(Engines(classifies=False)).may_cover(CLAIM)
