"""Start pictures that members send, with a real client on the sandbox."""

from __future__ import annotations

import io
from functools import partial
from typing import Any

import PIL.Image
from front_tools import ephemeral, finished, job_of, queued, refusal, text_of
from results import shows_result
from serving import Served, serving, until
from stores import undelivered

from bot.config import Config
from bot.domain.jobs import Job, State
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store
from sdjax_engine.request import Lora

RED = (255, 0, 0)
TWO_SIZES = Config.parse({"models": [{"sizes": ["128x128", "192x128", "256x256"], "guidance_scale": 2.2}]})
ONE_SIZE = Config.parse({"models": [{"sizes": ["128x128"]}]})
NOT_KEPT = "\nThe picture is not kept: send it again with /imagine."


def picture(
    size: tuple[int, int] = (90, 60), colour: tuple[int, ...] = RED, kind: str = "PNG", **how: Any
) -> bytes:
    file = io.BytesIO()
    PIL.Image.new("RGBA" if len(colour) == 4 else "RGB", size, colour).save(file, kind, **how)
    return file.getvalue()


async def kept(served: Served, name: str | None) -> PIL.Image.Image:
    """The artifact as a picture."""
    assert name is not None
    return PIL.Image.open(io.BytesIO(await served.artifacts.get(name)), formats=["PNG"])


async def asked(served: Served, member: Member, prompt: str, **options: Any) -> Job:
    message = await queued(member, prompt, **options)
    assert "Queued" in text_of(message)
    return await job_of(served.store, prompt)


async def test_a_start_picture_is_cleaned_and_stored_with_the_job(served: Served, ravi: Member) -> None:
    exif = PIL.Image.Exif()
    exif[0x013B] = "a person's name"
    data = picture(kind="JPEG", exif=exif)
    job = await asked(served, ravi, "a boat", image=("../boat.jpg", data), strength=0.4)
    assert (job.recipe.strength, job.recipe.mask_image) == (0.4, None)
    clean = await kept(served, job.recipe.init_image)
    assert (clean.mode, clean.size, clean.info) == ("RGB", (90, 60), {})
    assert clean.getpixel((45, 30)) == (254, 0, 0)  # red, after JPEG


async def test_a_mask_or_else_the_transparent_part_is_repainted(served: Served, ravi: Member) -> None:
    mask = picture(colour=(255, 255, 255))
    masked = await asked(served, ravi, "masked", image=picture(), mask=mask)
    assert masked.recipe.strength == 1.0
    assert (await kept(served, masked.recipe.mask_image)).getpixel((5, 5)) == 255
    cut = await asked(served, ravi, "cut", image=picture(colour=(*RED, 0)))
    assert (await kept(served, cut.recipe.mask_image)).getpixel((5, 5)) == 255


async def test_a_picture_is_painted_in_its_own_shape(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    async with serving(sandbox, store, artifacts, TWO_SIZES) as served:
        job = await asked(served, ravi, "a boat", image=picture((900, 600)))
        assert (job.recipe.width, job.recipe.height) == (192, 128)


async def test_a_file_that_is_no_picture_is_refused_privately_and_leaves_no_file(
    served: Served, ravi: Member, yuna: Member, omar: Member
) -> None:
    told = await refusal(ravi, await ravi.imagine(prompt="a cat", image=("cat.png", b"#!/bin/sh\n")))
    assert told == f"“image” is not a picture that can be read: send a PNG, JPEG or WebP file.{NOT_KEPT}"
    told = await refusal(yuna, await yuna.imagine(prompt="a cat", image=picture(), mask=b"<svg/>"))
    assert told.startswith("“마스크”은(는) 읽을 수 있는 그림이 아닙니다.")
    assert await served.store.jobs.active() == []
    assert [seen for seen in await omar.messages() if "cat" in text_of(seen)] == []


async def test_a_mask_or_a_strength_without_a_picture_asks_for_it(served: Served, ravi: Member) -> None:
    told = await refusal(ravi, await ravi.imagine(prompt="a cat", mask=picture()))
    assert told == f"A mask says which part of a picture to repaint: send that picture too.{NOT_KEPT}"
    told = await refusal(ravi, await ravi.imagine(prompt="a cat", strength=0.5))
    assert told == "Strength is how much to change a picture: send that picture too."


async def test_the_message_names_the_start_picture_and_again_keeps_it(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a boat", image=picture(), strength=0.5, seed=5)
    assert "from a picture, strength 0.5" in text_of(message)
    await omar.message_of(await omar.press(message, "Again"))
    again = await job_of(served.store, "a boat")
    assert (again.recipe.init_image, again.recipe.strength) == (job.recipe.init_image, 0.5)
    assert again.recipe.seed != 5


async def test_each_picture_of_a_grid_is_varied_by_its_number_and_enlarged_once_it_is_alone(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    async with serving(sandbox, store, artifacts, TWO_SIZES) as served:
        job, message = await finished(served, ravi, "boats", variants=3, seed=5)
        await ravi.message_of(await ravi.press(message, "V2"))
        varied = await job_of(store, "boats")
        assert varied.recipe.init_image == job.images[1].artifact
        assert varied.recipe.variants == 3
        await store.jobs.cancel(varied.id, user_id=None)

        alone = await ravi.message_of(await ravi.press(message, "U3"), shows_result)
        await ravi.message_of(await ravi.press(alone, "Enlarge"))
        larger = await job_of(store, "boats")
        assert larger.recipe.init_image == job.images[2].artifact
        assert (larger.recipe.width, larger.recipe.height, larger.recipe.variants) == (256, 256, 1)
        assert (larger.recipe.seed, larger.recipe.strength) == (7, 0.4)


async def is_delivered(store: Store) -> bool:
    return not await undelivered(store, limit=1)


async def test_buttons_of_a_larger_offer_work_after_a_restart_with_a_smaller_one(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    async with serving(sandbox, store, artifacts, TWO_SIZES) as served:
        _, message = await finished(served, ravi, "a boat")
        await until(partial(is_delivered, store))  # else the next front sends the result again, as it offers
    async with serving(sandbox, store, artifacts, ONE_SIZE):
        told = await refusal(ravi, await ravi.press(message, "Enlarge"))
        assert told == "demo paints no larger picture of this shape."
        await ravi.message_of(await ravi.press(message, "Vary"))
        assert (await job_of(store, "a boat")).state is State.WAITING


async def test_a_file_that_is_gone_from_discord_must_be_sent_again(
    served: Served, ravi: Member, monkeypatch: Any
) -> None:
    fetch = served.bot.services.attachments.fetch

    async def late(address: str, **how: Any) -> bytes:
        served.sandbox.misbehave(expire_attachments=True)
        return await fetch(address, **how)

    monkeypatch.setattr(served.bot.services.attachments, "fetch", late)
    told = await refusal(ravi, await ravi.imagine(prompt="a cat", image=picture()))
    assert told == f"“image” is no longer on Discord: send it again.{NOT_KEPT}"


async def test_loras_of_the_model_are_suggested_and_kept_with_the_job(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    config = Config.parse({"models": [{"loras": {"ink": "ink.safetensors", "fog": "fog.safetensors"}}]})
    async with serving(sandbox, store, artifacts, config) as served:
        choices = await ravi.autocomplete("imagine", "lora", "ink:0.5, f", prompt="x")
        assert choices == [{"name": "ink:0.5, fog", "value": "ink:0.5, fog"}]
        job, message = await finished(served, ravi, "a boat", lora="ink:0.5, fog")
        assert job.recipe.loras == (Lora(name="ink", weight=0.5), Lora(name="fog"))
        assert "LoRA ink:0.5, fog" in text_of(message)
        await ravi.imagine(prompt="a fox <lora:Ink:0.25> in <lora:rust:1> snow")
        hint = "“\\<lora:rust:1>” was read as part of the prompt: the model offers no LoRA of this name."
        await ravi.wait_for_message(lambda message: ephemeral(message) and hint in text_of(message))
        job = await job_of(served.store, "a fox in <lora:rust:1> snow")
        assert job.recipe.loras == (Lora(name="ink", weight=0.25),)
        told = await refusal(ravi, await ravi.imagine(prompt="a cat", lora="rust"))
        assert told == "There is no LoRA called “rust”: choose from ink, fog."
