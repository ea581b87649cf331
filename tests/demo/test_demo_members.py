"""Members of the demo's server get the pictures they asked for."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import numpy as np
import PIL.Image
import pytest
from results import shows_result
from running_demo import Demo

from bot.sandbox.client import Member
from bot.texts.catalogue import Texts
from bot.texts.mistakes import MISTAKES
from sdjax_engine.demo.captions import caption
from sdjax_engine.demo.checker import check
from sdjax_engine.demo.scenes import Scene, Thing
from sdjax_engine.images import read_recipe

PATIENCE = 120.0
"""Seconds; a picture takes one or two on an idle machine."""

FEW = 6
"""Steps of pictures that are only compared with each other."""

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


def shows(picture: PIL.Image.Image, scene: Scene) -> bool:
    return check(np.asarray(picture.convert("RGB")), scene).all_right


async def answered(member: Member, interaction: Any) -> PIL.Image.Image:
    message = await member.message_of(interaction, shows_result, timeout=PATIENCE)
    return PIL.Image.open(io.BytesIO(await member.attachment_bytes(message)))


async def test_the_demo_paints_a_first_picture_and_prints_its_path(demo: Demo) -> None:
    scene = Scene(
        things=(Thing(name="heart", colour="red"), Thing(name="star", colour="blue")),
        relation="left of",
        says_ground=False,
    )
    assert shows(PIL.Image.open(demo.picture), scene)
    assert read_recipe(demo.picture).prompt == caption(scene)


async def test_two_simultaneous_members_each_get_their_own_picture(demo: Demo) -> None:
    wishes = {
        "Ravi": Scene(things=(Thing(name="circle", colour="green", size="large"),), ground="black"),
        "Yuna": Scene(
            things=(Thing(name="square", colour="yellow"), Thing(name="triangle", colour="red")),
            relation="above",
            ground="white",
        ),
    }

    async def ask(name: str, scene: Scene) -> PIL.Image.Image:
        async with Member(demo.address, name) as member:
            return await answered(member, await member.imagine(prompt=caption(scene), seed=7))

    pictures = await asyncio.gather(*(ask(name, scene) for name, scene in wishes.items()))
    assert [shows(picture, scene) for picture, scene in zip(pictures, wishes.values(), strict=True)] == [
        True,
        True,
    ]


async def test_a_grids_tiles_are_the_pictures_of_the_following_seeds(demo: Demo) -> None:
    prompt = "a red circle on a white background"
    async with Member(demo.address, "Omar") as omar:
        grid = await answered(omar, await omar.imagine(prompt=prompt, seed=7, variants=4, steps=FEW))
        alone = await answered(omar, await omar.imagine(prompt=prompt, seed=10, steps=FEW))
    assert (grid.width, grid.height) == (2 * alone.width, 2 * alone.height)
    below_number = alone.height // 2
    last = grid.crop((alone.width, alone.height + below_number, grid.width, grid.height))
    same = alone.crop((0, below_number, alone.width, alone.height))
    assert last.convert("RGB").tobytes() == same.convert("RGB").tobytes()


async def test_there_is_a_member_for_each_language(demo: Demo) -> None:
    sentence = MISTAKES["nothing_to_cancel"]
    readers = {"Mina": "en", "Yuna": "ko", "Wei": "zh", "Omar": "ar"}
    for name, language in readers.items():
        async with Member(demo.address, name) as member:
            answer = await member.message_of(await member.use("cancel"))
            assert Texts.for_locale(language).gettext(sentence) in str(answer), name


async def test_the_sandbox_logs_no_violation(demo: Demo) -> None:
    async with Member(demo.address, "Mina") as mina:
        assert await mina.violations() == []
