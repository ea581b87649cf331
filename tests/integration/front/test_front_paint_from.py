"""“Paint from this picture” in the menu of a message, with a real client on the sandbox."""

from __future__ import annotations

import io
from typing import Any

import PIL.Image
import pytest
from front_tools import delete, ephemeral, fields, finished, job_of, refusal, refused_form, text_of
from sandbox_tools import MESSAGES, Raw
from serving import Served, serving

from bot.config import Config
from bot.domain.jobs import Descent, Job, State
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.modal_rules import inputs
from bot.sandbox.server import Sandbox
from bot.store import Store

MENU = "Paint from this picture"
NONE = "This message has no picture to paint from: choose one with a PNG, JPEG, WebP or GIF picture."
FORGOTTEN = "The bot no longer knows this form: choose it in the menu of the message again."
RED, BLUE = (255, 0, 0), (0, 0, 255)


def picture(colour: tuple[int, ...] = RED, size: tuple[int, int] = (90, 60), kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    PIL.Image.new("RGBA" if len(colour) == 4 else "RGB", size, colour).save(file, kind)
    return file.getvalue()


async def opened(member: Member, message: dict[str, Any]) -> dict[str, Any]:
    return await member.modal_of(await member.menu(message, MENU))


async def told(member: Member, message: dict[str, Any]) -> str:
    return await refusal(member, await member.menu(message, MENU))


async def painted(served: Served, member: Member, form: dict[str, Any], prompt: str, **typed: Any) -> Job:
    """The job of a submitted form."""
    await member.message_of(await member.submit(form, prompt=prompt, **typed))
    return await job_of(served.store, prompt)


def choices(form: dict[str, Any]) -> list[str]:
    """The names of the pictures that the form offers."""
    return [option["label"] for _, part, _ in inputs(form) for option in part.get("options", [])]


async def start_of(served: Served, job: Job) -> PIL.Image.Image:
    assert job.recipe.init_image is not None
    return PIL.Image.open(io.BytesIO(await served.artifacts.get(job.recipe.init_image)), formats=["PNG"])


async def test_any_members_picture_is_cleaned_stored_and_painted_from(
    served: Served, ravi: Member, omar: Member
) -> None:
    message = await ravi.say("my cat", ("cat.jpg", picture(kind="JPEG"), "image/jpeg"))
    form = await opened(omar, message)
    assert form["title"] == MENU
    assert [part["custom_id"] for _, part, _ in inputs(form)] == [
        "prompt",
        "negative_prompt",
        "settings",
        "mask",
    ]
    job = await painted(
        served, omar, form, "a tiger", negative_prompt="fog", settings="strength 0.4, steps 9"
    )
    assert (job.recipe.strength, job.recipe.num_inference_steps) == (0.4, 9)
    assert job.recipe.negative_prompt == "fog"
    assert str(job.origin.user_id) == (await omar.state())["me"]["id"]
    start = await start_of(served, job)
    assert (start.size, start.getpixel((45, 30))) == ((90, 60), (254, 0, 0))  # red, after JPEG
    await served.paint(job.id)


async def test_one_of_several_pictures_anywhere_in_the_message_is_chosen(
    served: Served, ravi: Member
) -> None:
    gallery = {"type": 12, "items": [{"media": {"url": "attachment://b.png"}}]}
    section = {
        "type": 9,
        "components": [{"type": 10, "content": "words"}],
        "accessory": {"type": 11, "media": {"url": "attachment://a.png"}},
    }
    files = {"a.png": picture(RED), "b.png": picture(BLUE)}
    embeds = [{"image": {"url": "attachment://a.png"}}, {"thumbnail": {"url": "attachment://b.png"}}]
    async with Raw(served.sandbox) as bot:
        classic = await bot.call("POST", MESSAGES, {"embeds": embeds}, files=files)
        modern = await bot.call(
            "POST", MESSAGES, {"flags": 1 << 15, "components": [section, gallery]}, files=files
        )
    said = await ravi.say("two", *files.items(), ("song.mp3", b"la"), ("notes.txt", b"words"))
    for number, message in enumerate((classic.body, modern.body, said)):
        form = await opened(ravi, message)
        assert choices(form) == ["a.png", "b.png"]
        first = await painted(served, ravi, form, f"first of {number}")
        second = await painted(served, ravi, form, f"second of {number}", picture=["1"])
        assert (await start_of(served, first)).getpixel((5, 5)) == RED
        assert (await start_of(served, second)).getpixel((5, 5)) == BLUE


async def test_a_result_of_this_bot_offers_each_picture_in_full_size(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "boats", variants=3)
    form = await opened(omar, message)
    assert choices(form) == [f"Picture {number} (row 1, column {number})" for number in (1, 2, 3)]
    started = await painted(served, omar, form, "a ship", picture=["1"])
    assert started.recipe.init_image == job.images[1].artifact
    assert started.recipe.strength == 0.75
    parent = started.origin.parent
    assert parent is not None
    assert (parent.job_id, parent.descent, parent.index) == (job.id, Descent.VARIATION, 1)
    assert (parent.channel_id, parent.message_id) == (int(message["channel_id"]), int(message["id"]))


async def test_a_part_of_a_picture_is_repainted_by_the_mask_of_the_form(
    served: Served, ravi: Member, omar: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = picture((255, 255, 255), size=(30, 30))
    job, result = await finished(served, ravi, "boats", variants=2)
    said = await ravi.say("my cat", ("cat.png", picture()))
    form = await opened(omar, result)
    repainted = await painted(served, omar, form, "a ship", picture=["1"], mask=mask)
    other = await painted(served, omar, await opened(omar, said), "a tiger", mask=mask)
    assert repainted.recipe.init_image == job.images[1].artifact
    for each in (repainted, other):
        assert each.recipe.strength == 1.0
        assert each.recipe.mask_image is not None
        kept = PIL.Image.open(io.BytesIO(await served.artifacts.get(each.recipe.mask_image)), formats=["PNG"])
        assert (kept.size, kept.getpixel((5, 5))) == ((30, 30), 255)
    submitted = await omar.submit(form, prompt="a boat", mask=("hole.png", b"#!/bin/sh"))
    unreadable = "“hole.png” is not a picture that can be read: send a PNG, JPEG or WebP file."
    assert (
        await refusal(omar, submitted) == f"{unreadable}\nPictures of a form are not kept: choose them again."
    )
    fetch = served.bot.services.attachments.fetch

    async def late(address: str, **how: Any) -> bytes:
        served.sandbox.misbehave(expire_attachments=True)
        return await fetch(address, **how)

    monkeypatch.setattr(served.bot.services.attachments, "fetch", late)
    gone = await refusal(omar, await omar.submit(form, prompt="a boat", mask=("hole.png", mask)))
    assert gone.startswith("“hole.png” is no longer on Discord: send it again.")


async def test_a_private_result_is_painted_from_privately(served: Served, ravi: Member) -> None:
    _, message = await finished(served, ravi, "a secret", private=True)
    form = await opened(ravi, message)
    answer = await ravi.message_of(await ravi.submit(form, prompt="another secret"))
    assert ephemeral(answer)


async def test_a_message_without_a_picture_gets_one_sentence(served: Served, ravi: Member) -> None:
    assert await told(ravi, await ravi.say("no picture")) == NONE
    assert await told(ravi, await ravi.say("", ("notes.txt", b"words"))) == NONE
    waiting = await ravi.message_of(await ravi.imagine(prompt="a boat"))
    assert await told(ravi, waiting) == NONE


async def test_a_typed_address_is_never_fetched(
    served: Served, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    fetch = served.bot.services.attachments.fetch

    async def noted(address: str, **how: Any) -> bytes:
        asked.append(address)
        return await fetch(address, **how)

    monkeypatch.setattr(served.bot.services.attachments, "fetch", noted)
    assert await told(ravi, await ravi.say("https://cdn.discordapp.com/attachments/1/2/a.png")) == NONE
    async with Raw(served.sandbox) as bot:
        url = "http://169.254.169.254/attachments/1/2/a.png"
        message = await bot.call("POST", MESSAGES, {"embeds": [{"image": {"url": url}}]})
    form = await opened(ravi, message.body)
    submitted = await ravi.submit(form, prompt="a boat")
    assert await refusal(ravi, submitted) == "“a.png” is no longer on Discord: choose another message."
    assert [address.startswith(f"{served.sandbox.address}/external/") for address in asked] == [True]


async def test_limits_changed_while_the_form_is_open_apply(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    strict = Config.parse({"limits": {"files_per_minute": 1}, "queue": {"max_waiting_per_user": 1}})
    async with serving(sandbox, store, artifacts, strict) as served:
        form = await opened(ravi, await ravi.say("", ("cat.png", picture())))
        other = await opened(ravi, await ravi.say("", ("dog.png", picture())))
        await painted(served, ravi, form, "a cat")
        submitted = await ravi.submit(other, prompt="a dog", settings="steps 7")
        sentence = await refusal(ravi, submitted)
        assert sentence.startswith("You have sent many pictures in a short time")
        held = fields(await refused_form(ravi, submitted))
        assert (held["prompt"], held["settings"]) == ("a dog", "steps 7")


async def test_a_form_works_after_its_message_is_deleted_but_not_after_a_restart(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member, mina: Member
) -> None:
    message = await ravi.say("", ("cat.png", picture()))
    async with serving(sandbox, store, artifacts, Config()) as served:
        form = await opened(ravi, message)
        await mina.delete(message)
        job = await painted(served, ravi, form, "a cat")
        assert (await start_of(served, job)).size == (90, 60)
    async with serving(sandbox, store, artifacts, Config()):
        submitted = await ravi.submit(form, prompt="a tiger")
        assert await refusal(ravi, submitted) == FORGOTTEN
        await ravi.wait_for_message(lambda message: "a tiger" in text_of(message) and ephemeral(message))
        assert [job.state for job in await store.jobs.active()] == [State.WAITING]


async def test_a_missing_picture_is_reported_and_leaves_no_file(
    served: Served, ravi: Member, omar: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = await opened(ravi, await ravi.say("", ("cat.png", picture())))
    served.sandbox.misbehave(expire_attachments=True)
    sentence = await refusal(ravi, await ravi.submit(form, prompt="a cat"))
    assert sentence == "“cat.png” is no longer on Discord: choose another message."
    _, message = await finished(served, ravi, "a boat")
    form = await opened(omar, message)
    await delete(ravi, message)
    sentence = await refusal(omar, await omar.submit(form, prompt="a ship"))
    assert sentence == "The bot does not have this picture, or no longer has it."
    assert await served.store.jobs.active() == []
