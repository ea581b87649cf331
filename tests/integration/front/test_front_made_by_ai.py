"""“Made by AI?” in the menu of a message, with a real client on the sandbox."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path

import PIL.Image
import pytest
from front_tools import refusal, text_of
from serving import Served, serving
from shapes import file_of, sent_again, shapes
from test_front_known import painted
from watermarks import CornerWatermark

from bot.config import Config, ProvenanceConfig
from bot.files.artifacts import Artifacts
from bot.front.commands.made_by_ai import NAME
from bot.provenance.opening import open_signing
from bot.provenance.signing import Signing
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store


@pytest.fixture
async def watermarking(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object
) -> AsyncIterator[Served]:
    """The shipped bot with a watermark and no other mark."""
    signing = Signing(watermark=CornerWatermark())
    async with serving(sandbox, store, artifacts, Config(), signing=signing) as served:
        yield served


async def test_a_picture_of_another_place_is_known_by_its_watermark_alone(
    watermarking: Served, ravi: Member, yuna: Member
) -> None:
    _, shown = await painted(watermarking, yuna, "a boat", shapes(1))
    sent = PIL.Image.open(io.BytesIO(await yuna.attachment_bytes(shown)))
    sent.paste((200, 30, 30), (0, 32, 128, 128))  # no hash knows it again
    strange = shapes(2)
    CornerWatermark().put(strange, 12345)
    posted = await yuna.say(
        "look",
        ("boat.jpg", file_of(sent, "JPEG", quality=90), "image/jpeg"),
        ("strange.png", file_of(strange), "image/png"),
        ("drawn.png", file_of(shapes(3)), "image/png"),
    )
    said = await refusal(ravi, await ravi.menu(posted, NAME))
    assert said.strip().splitlines()[1:4] == [
        "- boat.jpg · **Yes** · invisible watermark of this bot",
        "- strange.png · **Not known**",
        "- drawn.png · **Not known**",
    ]


REMOVED = "Marks can be removed, so a picture without any may be AI-generated all the same."


async def test_everybody_learns_of_each_picture_whether_ai_made_it_and_never_who_asked(
    served: Served, ravi: Member, yuna: Member, tmp_path: Path
) -> None:
    boat, house = shapes(1), shapes(2)
    job, shown = await painted(served, yuna, "a boat", boat)
    signing = open_signing(ProvenanceConfig(folder=str(tmp_path)))
    signed, original = signing.signed(file_of(house)), signing.signed(file_of(boat))
    posted = await yuna.say(
        "look",
        ("signed.png", signed, "image/png"),
        ("copy.jpg", sent_again(boat), "image/jpeg"),
        ("drawn.webp", file_of(shapes(3), "WEBP"), "image/webp"),
        ("broken.png", signed[:200], "image/png"),
    )
    file = await yuna.say("mine", ("original.png", original, "image/png"), channel="dm")
    menu = await yuna.menu(file, NAME)
    said = text_of(await yuna.message_of(menu, lambda seen: bool(text_of(seen)), channel="dm"))
    assert "original.png · **예** · 서명된 매니페스트" in said
    assert "이 봇이 그린 그림" in said  # though its hash is of another place
    said = await refusal(ravi, await ravi.menu(posted, NAME))
    lines = said.strip().splitlines()
    assert lines[0] == "### Made by AI?"
    assert lines[1:4] == [
        "- signed.png · **Yes** · signed manifest · metadata (XMP)",
        "- copy.jpg · **Yes** · painted by this bot, or almost identical",
        "- drawn.webp · **Not known**",
    ]
    assert "broken.png" in lines[4]
    assert lines[5] == REMOVED
    assert str(job.origin.user_id) not in said
    own = await refusal(ravi, await ravi.menu(shown, NAME))
    assert "**Yes** · painted by this bot" in own
    words = await yuna.say("no picture here")
    assert await refusal(ravi, await ravi.menu(words, NAME)) == "This message has no picture."
    in_korean = await refusal(yuna, await yuna.menu(shown, NAME))
    assert in_korean.strip().startswith("### AI가 만든 건가요?")
