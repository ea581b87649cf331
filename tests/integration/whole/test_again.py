"""Again, from the button to the pictures: new pictures with the next seeds."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import PIL.Image
from results import shows_result, text_of
from serving import Served

from bot.sandbox.client import Member

Message = dict[str, Any]
SIDE = 64


async def finished(member: Member, interaction: str) -> Message:
    return await member.message_of(interaction, shows_result, timeout=60.0)


async def tiles(member: Member, message: Message) -> list[bytes]:
    """The two pictures of a grid."""
    grid = np.asarray(PIL.Image.open(io.BytesIO(await member.attachment_bytes(message))))
    return [grid[:, :SIDE].tobytes(), grid[:, SIDE:].tobytes()]


async def test_every_press_of_again_shows_new_pictures(painting: Served, mina: Member, ravi: Member) -> None:
    first = await finished(mina, await mina.imagine(prompt="a red circle", seed=41, variants=2))
    second = await finished(ravi, await ravi.press(first, "Again"))
    third = await finished(mina, await mina.press(first, "Again"))
    fourth = await finished(mina, await mina.press(second, "Again"))

    for message, seeds in (first, "41, 42"), (second, "43, 44"), (third, "45, 46"), (fourth, "47, 48"):
        assert f"seeds {seeds} " in text_of(message)
    shown = [tile for message in (first, second, third, fourth) for tile in await tiles(mina, message)]
    assert len(set(shown)) == len(shown) == 8

    typed = await finished(ravi, await ravi.imagine(prompt="a red circle", seed=45, variants=2))
    assert await tiles(ravi, typed) == await tiles(mina, third)
