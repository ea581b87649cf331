"""Control pictures, which pictures keep the composition of, with a real client on the sandbox."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import PIL.Image
import pytest
from front_tools import fields, finished, job_of, refusal, text_of
from serving import Served, serving
from shapes import file_of, shapes
from test_front_pictures import NOT_KEPT, asked, kept, picture

from bot.config import Config
from bot.domain.hashes import hash_of_file
from bot.domain.jobs import State
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member, RefusedByClient
from bot.sandbox.community import GUILD_ID
from bot.sandbox.modal_rules import inputs
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.rows.audit import By

NETS = {
    "canny": {"source": "nets/canny", "types": ["edges", "lines"]},
    "pose": {"source": "nets/pose", "types": ["pose"]},
}
SIZES = ["128x128", "192x128", "384x256"]
CONFIG = Config.parse({"models": [{"sizes": SIZES, "controlnets": NETS}]})
MENU = "Keep this composition"
NAVY = (0, 0, 128)


@pytest.fixture
async def controlled(sandbox: Sandbox, store: Store, artifacts: Artifacts) -> AsyncIterator[Served]:
    async with serving(sandbox, store, artifacts, CONFIG) as served:
        yield served


async def test_a_control_picture_is_kept_with_its_job_and_stays_in_what_is_made_from_it(
    controlled: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(
        controlled,
        ravi,
        "a fox",
        control=picture((180, 120), NAVY),
        control_type="lines",
        control_strength=0.7,
    )
    recipe = job.recipe
    assert (recipe.controlnet, recipe.control_type, recipe.control_strength) == ("canny", "lines", 0.7)
    assert (recipe.width, recipe.height) == (192, 128)  # the shape of the picture
    assert (await kept(controlled, recipe.control_image)).getpixel((5, 5)) == NAVY
    assert "composition kept (lines), strength 0.7" in text_of(message)
    again = await omar.message_of(await omar.press(message, "Again"))
    assert "Queued" in text_of(again)
    for label in ("Vary", "Enlarge"):
        await omar.message_of(await omar.press(message, label))
    form = await omar.modal_of(await omar.press(message, "Remix"))
    assert "control_type lines, control_strength 0.7" in fields(form)["settings"]
    await omar.message_of(await omar.submit(form, prompt="a wolf", settings="control_strength 1.2"))
    free = await omar.modal_of(await omar.press(message, "Remix"))
    await omar.message_of(await omar.submit(free, prompt="a free wolf", settings="control_type -"))
    made = [job for job in await controlled.store.jobs.active() if job.recipe.prompt == "a fox"]
    assert [each.recipe.control_image for each in made] == [recipe.control_image] * 3
    wolf = (await job_of(controlled.store, "a wolf")).recipe
    assert (wolf.control_image, wolf.control_type, wolf.control_strength) == (
        recipe.control_image,
        "lines",
        1.2,
    )
    assert (await job_of(controlled.store, "a free wolf")).recipe.control_image is None
    for each in await controlled.store.jobs.active():
        assert (await controlled.paint(each.id)).state is State.DONE


async def test_what_is_transparent_is_white_in_a_picture_and_black_in_a_control_picture(
    controlled: Served, ravi: Member
) -> None:
    clear = picture(colour=(255, 0, 0, 0))
    for kind, background in (("edges", (255, 255, 255)), ("pose", (0, 0, 0))):
        job = await asked(controlled, ravi, kind, control=clear, control_type=kind)
        assert job.recipe.mask_image is None
        assert (await kept(controlled, job.recipe.control_image)).getpixel((5, 5)) == background


async def test_each_mistake_with_a_control_picture_is_one_sentence(
    controlled: Served, store: Store, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(**options: Any) -> str:
        return await refusal(ravi, await ravi.imagine(**{"prompt": "a fox"} | options))

    control = picture()
    missing = "Say what to keep of the control picture: choose a control type from edges, lines, pose."
    assert await told(control=control) == missing + NOT_KEPT
    alone = "Control type and strength say how to keep a composition: send its picture too."
    assert await told(control_type="edges", control_strength=0.5) == alone
    unreadable = "“control” is not a picture that can be read: send a PNG, JPEG or WebP file."
    assert await told(control=b"\x89PNG", control_type="edges") == unreadable + NOT_KEPT
    known = file_of(shapes(1))
    await store.known.block(hash_of_file(known), By(actor_id=1, guild_id=GUILD_ID))
    blocked = "“control” is blocked here, or almost identical to a blocked picture: choose another."
    assert await told(control=known, control_type="edges") == blocked + NOT_KEPT
    assert "one prompt is painted at a time" in await told(
        prompt="a {red, blue} fox", control=control, control_type="edges"
    )
    fetch = controlled.bot.services.attachments.fetch

    async def late(address: str, **how: Any) -> bytes:
        controlled.sandbox.misbehave(expire_attachments=True)
        return await fetch(address, **how)

    monkeypatch.setattr(controlled.bot.services.attachments, "fetch", late)
    gone = "“control” is no longer on Discord: send it again."
    assert await told(control=control, control_type="edges") == gone + NOT_KEPT
    assert await store.jobs.active() == []


async def test_the_menu_of_a_message_opens_a_form_that_keeps_its_composition(
    controlled: Served, ravi: Member, omar: Member
) -> None:
    message = await ravi.say("my cat", ("cat.png", picture(colour=NAVY)), ("dog.png", picture()))
    form = await omar.modal_of(await omar.menu(message, MENU))
    assert form["title"] == MENU
    parts = [part["custom_id"] for _, part, _ in inputs(form)]
    assert parts == ["picture", "prompt", "negative_prompt", "settings", "control_type"]
    await omar.message_of(await omar.submit(form, prompt="a tiger", control_type="pose", picture="0"))
    recipe = (await job_of(controlled.store, "a tiger")).recipe
    assert (recipe.init_image, recipe.controlnet, recipe.control_type) == (None, "pose", "pose")
    assert (await kept(controlled, recipe.control_image)).getpixel((5, 5)) == NAVY
    job, result = await finished(controlled, ravi, "boats", variants=2)
    form = await omar.modal_of(await omar.menu(result, MENU))
    typed = {"settings": "control_strength 0.4, control_type lines", "control_type": "edges"}
    await omar.message_of(await omar.submit(form, prompt="a ship", picture="1", **typed))
    recipe = (await job_of(controlled.store, "a ship")).recipe
    assert recipe.control_image == job.images[1].artifact
    assert (recipe.control_type, recipe.control_strength) == ("lines", 0.4)
    words = await ravi.say("no picture here")
    assert "has no picture to paint from" in await refusal(omar, await omar.menu(words, MENU))


async def test_a_model_that_loses_its_network_refuses_the_form_and_what_was_made_with_it(
    controlled: Served, ravi: Member
) -> None:
    said = await ravi.say("my cat", ("cat.png", picture()))
    form = await ravi.modal_of(await ravi.menu(said, MENU))
    _, message = await finished(controlled, ravi, "a fox", control=picture(), control_type="pose")
    plain = Config.parse({"models": [{"sizes": SIZES}]}).models[0].offer
    await controlled.bot.change_offers((plain,))  # as a worker publishes it
    lost = "demo has no ControlNets: leave the control picture out."
    with pytest.raises(RefusedByClient, match="no “Keep this composition” in the menu"):
        await ravi.menu(said, MENU)
    assert lost in await refusal(ravi, await ravi.submit(form, prompt="a tiger", control_type="pose"))
    assert lost in await refusal(ravi, await ravi.press(message, "Again"))
    remix = await ravi.modal_of(await ravi.press(message, "Remix"))
    await ravi.message_of(await ravi.submit(remix, prompt="a wolf", settings="control_type -"))
    assert (await job_of(controlled.store, "a wolf")).recipe.given == {}


async def test_a_control_picture_is_deleted_with_its_result(controlled: Served, ravi: Member) -> None:
    job, _ = await finished(controlled, ravi, "a fox", control=picture(), control_type="edges")
    name = job.recipe.control_image
    assert name is not None
    assert PIL.Image.open(io.BytesIO(await controlled.artifacts.get(name))).size == (90, 60)
    gone = await controlled.store.deliveries.delete_result(job.id, user_id=job.origin.user_id)
    assert name in gone
