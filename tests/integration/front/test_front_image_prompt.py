"""Image prompts, pictures that are prompts beside the words, with a real client on the sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from front_tools import fields, finished, job_of, refusal, text_of
from serving import Served, serving
from shapes import file_of, shapes
from test_front_pictures import NOT_KEPT, asked, kept, picture
from test_front_remix import opened

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

SIZES = ["128x128", "192x128", "384x256"]
CONFIG = Config.parse({"models": [{"sizes": SIZES, "image_prompt": "adapter.safetensors"}]})
MENU = "Like this picture"
NAVY = (0, 0, 128)


@pytest.fixture
async def prompted(sandbox: Sandbox, store: Store, artifacts: Artifacts) -> AsyncIterator[Served]:
    async with serving(sandbox, store, artifacts, CONFIG) as served:
        yield served


async def test_an_image_prompt_is_kept_with_its_job_and_stays_in_what_is_made_from_it(
    prompted: Served, ravi: Member, omar: Member
) -> None:
    shown = picture((180, 120), NAVY)
    typed = {"size": "192x128", "image_prompt_strength": 0.7}
    job, message = await finished(prompted, ravi, "a fox", image_prompt=shown, **typed)
    recipe = job.recipe
    assert recipe.image_prompt_strength == 0.7
    assert (await kept(prompted, recipe.image_prompt)).getpixel((5, 5)) == NAVY
    assert "like a picture, strength 0.7" in text_of(message)
    for label in ("Again", "Vary", "Enlarge"):
        await omar.message_of(await omar.press(message, label))
    form = await omar.modal_of(await omar.press(message, "Remix"))
    assert "image_prompt_strength 0.7" in fields(form)["settings"]
    await omar.message_of(await omar.submit(form, prompt="a wolf", settings="image_prompt_strength 0.2"))
    made = [job for job in await prompted.store.jobs.active() if job.recipe.prompt == "a fox"]
    assert [each.recipe.image_prompt for each in made] == [recipe.image_prompt] * 3
    wolf = (await job_of(prompted.store, "a wolf")).recipe
    assert (wolf.image_prompt, wolf.image_prompt_strength) == (recipe.image_prompt, 0.2)
    for each in await prompted.store.jobs.active():
        assert (await prompted.paint(each.id)).state is State.DONE
    gone = await prompted.store.deliveries.delete_result(job.id, user_id=job.origin.user_id)
    assert recipe.image_prompt in gone


async def test_a_picture_to_start_from_and_an_image_prompt_go_together(
    prompted: Served, ravi: Member
) -> None:
    job = await asked(
        prompted, ravi, "a fox", image=picture((180, 120)), image_prompt=picture((60, 90), (255, 0, 0, 0))
    )
    recipe = job.recipe
    assert (recipe.strength, recipe.image_prompt_strength) == (0.75, 0.6)
    assert (recipe.width, recipe.height) == (192, 128)
    assert recipe.mask_image is None
    assert (await kept(prompted, recipe.image_prompt)).getpixel((5, 5)) == (255, 255, 255)


async def test_each_mistake_with_an_image_prompt_is_one_sentence(
    prompted: Served, store: Store, ravi: Member
) -> None:
    async def told(**options: object) -> str:
        return await refusal(ravi, await ravi.imagine(**{"prompt": "a fox"} | options))

    alone = "The strength of an image prompt says how much a picture counts: send it too."
    assert await told(image_prompt_strength=0.5) == alone
    unreadable = r"“image\_prompt” is not a picture that can be read: send a PNG, JPEG or WebP file."
    assert await told(image_prompt=b"\x89PNG") == unreadable + NOT_KEPT
    known = file_of(shapes(1))
    await store.known.block(hash_of_file(known), By(actor_id=1, guild_id=GUILD_ID))
    blocked = r"“image\_prompt” is blocked here, or almost identical to a blocked picture: choose another."
    assert await told(image_prompt=known) == blocked + NOT_KEPT
    assert "one prompt is painted at a time" in await told(prompt="a {red, blue} fox", image_prompt=picture())
    assert await store.jobs.active() == []


async def test_the_menu_of_a_message_opens_a_form_whose_prompt_is_its_picture(
    prompted: Served, ravi: Member, omar: Member
) -> None:
    message = await ravi.say("my cat", ("cat.png", picture(colour=NAVY)), ("dog.png", picture()))
    form = await omar.modal_of(await omar.menu(message, MENU))
    assert form["title"] == MENU
    assert [part["custom_id"] for _, part, _ in inputs(form)] == [
        *("picture", "prompt", "negative_prompt", "settings")
    ]
    await omar.message_of(await omar.submit(form, prompt="a tiger", picture="0"))
    recipe = (await job_of(prompted.store, "a tiger")).recipe
    assert (recipe.width, recipe.height) == (128, 128)  # the shape of the picture has no say
    assert (recipe.init_image, recipe.image_prompt_strength) == (None, 0.6)
    assert (await kept(prompted, recipe.image_prompt)).getpixel((5, 5)) == NAVY
    job, result = await finished(prompted, ravi, "boats", variants=2)
    form = await omar.modal_of(await omar.menu(result, MENU))
    typed = {"settings": "image_prompt_strength 0.4"}
    await omar.message_of(await omar.submit(form, prompt="a ship", picture="1", **typed))
    recipe = (await job_of(prompted.store, "a ship")).recipe
    assert (recipe.image_prompt, recipe.image_prompt_strength) == (job.images[1].artifact, 0.4)


async def test_a_model_that_takes_image_prompts_no_more_refuses_the_form_and_what_was_made_with_one(
    prompted: Served, ravi: Member
) -> None:
    said = await ravi.say("my cat", ("cat.png", picture()))
    form = await ravi.modal_of(await ravi.menu(said, MENU))
    _, message = await finished(prompted, ravi, "a fox", image_prompt=picture())
    plain = Config.parse({"models": [{"sizes": SIZES}]}).models[0].offer
    await prompted.bot.change_offers((plain,))  # as a worker publishes it
    lost = "demo takes no picture as a prompt: leave the image prompt out."
    with pytest.raises(RefusedByClient, match="no “Like this picture” in the menu"):
        await ravi.menu(said, MENU)
    assert lost in await refusal(ravi, await ravi.submit(form, prompt="a tiger"))
    assert lost in await refusal(ravi, await ravi.press(message, "Again"))
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    assert lost in await refusal(ravi, await ravi.submit(form, prompt="a lynx"))
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    without = fields(form)["settings"].replace("strength 0.6", "strength 0")
    await ravi.message_of(await ravi.submit(form, prompt="a wolf", settings=without))
    assert (await job_of(prompted.store, "a wolf")).recipe.given == {}


async def test_a_strength_of_0_leaves_the_image_prompt_out_of_a_remix_from_a_picture(
    prompted: Served, ravi: Member
) -> None:
    _, message = await finished(prompted, ravi, "a fox", image_prompt=picture())
    form = await opened(ravi, message)
    typed: dict[str, Any] = {"image": picture(), "settings": "image_prompt_strength 0"}
    await ravi.message_of(await ravi.submit(form, prompt="a wolf", **typed))
    assert list((await job_of(prompted.store, "a wolf")).recipe.given) == ["init_image"]
