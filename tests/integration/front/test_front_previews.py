"""Previews with the progress of a picture, as a channel sees them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import PIL.Image
from front_tools import job_of, queued, refusal
from serving import Served, serving, until

from bot.config import Config
from bot.domain.jobs import Claim
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.rules import Limits
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.worker.preview_files import COARSE_SIDE, encode_preview
from sdjax_engine.images import encode_png

Message = dict[str, Any]
RED, BLUE, GREY = (200, 30, 30), (30, 30, 200), (128, 128, 128)


def preview_of(colour: tuple[int, int, int]) -> bytes:
    """The file of a preview of one colour."""
    return encode_preview(np.full((16, 16, 3), colour, np.uint8), coarse=False)


async def painting(served: Served, member: Member, prompt: str, **options: Any) -> tuple[str, list[Claim]]:
    """The id of a job whose images a worker has claimed."""
    await queued(member, prompt, **options)
    job = await job_of(served.store, prompt)
    claims = await served.store.leases.claim("worker", limit=9, ttl=60.0)
    return job.id, claims


async def beat(served: Served, step: int, previews: dict[Claim, bytes]) -> None:
    await served.store.leases.heartbeat(dict.fromkeys(previews, step), ttl=60.0, previews=previews)


async def picture_in(member: Member, message: Message) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(await member.attachment_bytes(message)))


async def finish(served: Served, claim: Claim, colour: tuple[int, int, int], **how: Any) -> None:
    pixels = np.full((claim.request.height, claim.request.width, 3), colour, np.uint8)
    file = encode_png(pixels, claim.request, extra={"job": claim.job_id})
    name = await served.artifacts.put(file, ".png")
    await served.store.leases.complete(claim, artifact=name, seconds=1.0, **how)


def has_picture(message: Message) -> bool:
    return bool(message["attachments"])


async def test_a_preview_shows_every_picture_of_the_job_in_the_order_of_the_result(
    served: Served, mina: Member
) -> None:
    job_id, claims = await painting(served, mina, "a boat", variants=2)
    await beat(served, 5, {claims[0]: preview_of(RED)})
    message = await mina.wait_for_message(has_picture)
    shown = (await picture_in(mina, message)).convert("RGB")
    width, height = shown.size
    assert (width, height) == (256, 128)
    red, nothing = shown.getpixel((64, 100)), shown.getpixel((192, 100))
    assert np.abs(np.array(red) - RED).max() < 30
    assert np.abs(np.array(nothing) - (43, 45, 49)).max() < 12
    gallery = str(message["components"])
    assert "Preview of 2 pictures: a boat" in gallery
    for claim in claims:
        await finish(served, claim, GREY)
    result = await mina.wait_for_message(lambda message: "grid" in str(message["attachments"]))
    assert result["id"] == message["id"], "the result takes the preview's place"
    assert len(result["attachments"]) == 1
    assert await served.store.previews.of(job_id) == {}


async def test_a_finished_picture_takes_the_place_of_its_preview_while_others_are_painted(
    served: Served, mina: Member
) -> None:
    _, claims = await painting(served, mina, "a boat", variants=4)
    await beat(served, 1, {claims[0]: preview_of(BLUE), claims[2]: preview_of(RED)})
    await mina.wait_for_message(has_picture)
    await finish(served, claims[0], GREY)
    await finish(served, claims[1], GREY)

    async def tiles() -> list[list[int]]:
        message = await mina.wait_for_message(has_picture)
        shown = (await picture_in(mina, message)).convert("RGB")
        return [list(shown.getpixel(place)) for place in ((64, 100), (192, 100), (64, 228))]

    async def are_shown() -> bool:
        first, second, third = await tiles()
        near = [np.abs(np.array(tile) - GREY).max() < 12 for tile in (first, second)]
        return all(near) and bool(np.abs(np.array(third) - RED).max() < 30)

    await until(are_shown)


async def test_a_person_without_previews_sees_only_the_progress_bar(served: Served, ravi: Member) -> None:
    form = await ravi.modal_of(await ravi.use("settings"))
    assert await refusal(ravi, await ravi.submit(form, settings="previews off")) == "Saved."
    _, claims = await painting(served, ravi, "a ship")
    await beat(served, 10, {claims[0]: preview_of(BLUE)})
    message = await ravi.wait_for_message(lambda message: "50 %" in str(message["components"]))
    assert not has_picture(message)


async def test_a_server_that_refuses_the_file_still_sees_the_progress(
    store: Store, artifacts: Artifacts
) -> None:
    limits = Limits(file=64, request=128)
    async with (
        Sandbox(limits=limits) as sandbox,
        Member(sandbox.address, "Mina") as mina,
        serving(sandbox, store, artifacts, Config()) as served,
    ):
        _, claims = await painting(served, mina, "a kite")
        await beat(served, 10, {claims[0]: preview_of(BLUE)})
        message = await mina.wait_for_message(lambda message: "50 %" in str(message["components"]))
        assert not has_picture(message)


def test_previews_of_checked_models_have_only_a_few_cells_of_colour() -> None:
    numbers = np.random.default_rng(1).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    fine, coarse = (
        PIL.Image.open(io.BytesIO(encode_preview(numbers, coarse=coarse))) for coarse in (False, True)
    )
    assert fine.size == (96, 64)
    assert max(coarse.size) == COARSE_SIDE
    assert coarse.size == (16, 11)
