"""Members of the demo's server start from pictures that they send."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest
from results import shows_result
from running_demo import Demo

from bot.config import ModelConfig
from bot.sandbox.client import Member

PATIENCE = 120.0
"""Seconds; a picture takes one or two on an idle machine."""

(SIZE, _), *_ = ModelConfig().offer.sizes
PROMPT = "a red circle on a white background"
Pixels = npt.NDArray[np.float64]

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


def drawn() -> PIL.Image.Image:
    """A yellow square on blue, unrelated to the prompt."""
    picture = PIL.Image.new("RGB", (SIZE, SIZE), (20, 40, 200))
    picture.paste((240, 220, 30), (SIZE // 4, SIZE // 4, SIZE * 3 // 4, SIZE * 3 // 4))
    return picture


def half() -> PIL.Image.Image:
    """A mask: the right half is repainted."""
    mask = PIL.Image.new("L", (SIZE, SIZE), 0)
    mask.paste(255, (SIZE // 2, 0, SIZE, SIZE))
    return mask


def saved(picture: PIL.Image.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def pixels(picture: PIL.Image.Image) -> Pixels:
    return np.asarray(picture.convert("RGB"), np.float64) / 255


def difference(first: Pixels, second: Pixels) -> float:
    return float(np.abs(first - second).mean())


async def answered(member: Member, interaction: Any) -> tuple[Any, Pixels]:
    message = await member.message_of(interaction, shows_result, timeout=PATIENCE)
    data = await member.attachment_bytes(message)
    return message, pixels(PIL.Image.open(io.BytesIO(data)))


async def test_a_mask_keeps_its_part_and_the_rest_follows_the_prompt(demo: Demo) -> None:
    start = drawn()
    async with Member(demo.address, "Omar") as omar:
        asked = await omar.imagine(prompt=PROMPT, seed=7, image=saved(start), mask=saved(half()))
        _, painted = await answered(omar, asked)
    kept, anew = np.s_[:, : SIZE // 2 - 8], np.s_[:, SIZE // 2 + 8 :]
    near, far = (difference(painted[part], pixels(start)[part]) for part in (kept, anew))
    assert near < 0.1 < 2 * near < far


async def test_cyan_is_covered_so_that_levels_of_pictures_can_be_tried(demo: Demo) -> None:
    async with Member(demo.address, "Omar") as omar:
        names = {}
        for colour in ("cyan", "red"):
            asked = await omar.imagine(prompt=f"a {colour} circle on a white background", seed=7)
            message, _ = await answered(omar, asked)
            names[colour] = message["attachments"][0]["filename"]
    assert names["cyan"].startswith("SPOILER_")
    assert not names["red"].startswith("SPOILER_")


async def test_the_lora_of_the_demo_paints_in_neon(demo: Demo) -> None:
    async with Member(demo.address, "Omar") as omar:
        _, plain = await answered(omar, await omar.imagine(prompt=PROMPT, seed=7))
        _, neon = await answered(omar, await omar.imagine(prompt=f"{PROMPT} <lora:neon:1>", seed=7))
    edge = np.s_[:8]
    assert plain[edge].mean() > 0.9
    assert neon[edge].mean() < 0.1
    assert neon[..., 0].max() > 0.6
