"""Changing the words, the settings and the start picture of a result in forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from front_tools import ephemeral, fields, finished, job_of, refusal, refused_form, text_of
from serving import Served, serving
from shapes import file_of, shapes
from test_front_pictures import TWO_SIZES, kept, picture

from bot.config import Config
from bot.domain.hashes import hash_of_file
from bot.domain.jobs import Descent
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member, RefusedByClient
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.sandbox.modal_rules import inputs, submission
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.rows.audit import By


async def test_the_form_holds_the_words_and_settings_and_paints_what_was_changed(
    served: Served, ravi: Member, omar: Member
) -> None:
    _, message = await finished(served, ravi, "a boat", negative_prompt="fog", seed=5, steps=9)
    form = await omar.modal_of(await omar.press(message, "Remix"))
    assert fields(form) == {
        "prompt": "a boat",
        "negative_prompt": "fog",
        "size": "128x128 demo",
        "sampler": "ddim",
        "settings": "variants 1, steps 9, guidance 2.2, seed 5",
    }
    given = {"prompt": "a red boat", "settings": "steps 12, seed 5"}
    answer = await omar.message_of(await omar.submit(form, **given))
    assert "a red boat" in text_of(answer)
    remixed = await job_of(served.store, "a red boat")
    recipe = remixed.recipe
    assert (recipe.seed, recipe.num_inference_steps, recipe.negative_prompt) == (5, 12, "fog")
    assert str(remixed.origin.user_id) == (await omar.state())["me"]["id"]
    assert remixed.origin.parent is not None
    assert (remixed.origin.parent.descent, remixed.origin.parent.message_id) == (
        Descent.REMIX,
        int(message["id"]),
    )


async def test_a_remix_and_a_variation_keep_the_layers_that_were_skipped(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    model = Config().models[0]
    skipping = model.with_defaults(replace(model.offer, most_skipped=3))  # as a worker publishes it
    config = Config().model_copy(update={"models": (skipping,)})
    async with serving(sandbox, store, artifacts, config) as served:
        job, message = await finished(served, ravi, "a boat", clip_skip=2)
        assert job.recipe.clip_skip == 1
        await ravi.message_of(await ravi.press(message, "Vary"))
        assert (await job_of(store, "a boat")).recipe.clip_skip == 1
        form = await ravi.modal_of(await ravi.press(message, "Remix"))
        assert "clip_skip 2" in fields(form)["settings"].split(", ")
        told = await refusal(ravi, await ravi.submit(form, prompt="a ship", settings="clip_skip 5"))
        assert told == (
            "A clip skip of 5 is not possible with demo: choose between 1, which leaves out no layer, and 4."
        )
        await ravi.message_of(await ravi.submit(form, prompt="a ship"))
        assert (await job_of(store, "a ship")).recipe.clip_skip == 1


async def test_a_remix_keeps_the_start_picture_and_its_strength(served: Served, ravi: Member) -> None:
    job, message = await finished(served, ravi, "a boat", image=picture(), strength=0.4)
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    await ravi.message_of(await ravi.submit(form, prompt="a ship", settings="steps 8"))
    recipe = (await job_of(served.store, "a ship")).recipe
    assert (recipe.init_image, recipe.strength) == (job.recipe.init_image, 0.4)


async def test_size_model_and_sampler_are_chosen_in_menus(served: Served, ravi: Member, yuna: Member) -> None:
    _, message = await finished(served, ravi, "a boat")
    (offer,) = served.bot.services.offers
    await served.bot.change_offers((offer, replace(offer, model="large", sizes=((512, 512), (768, 512)))))
    form = await yuna.modal_of(await yuna.press(message, "Remix"))
    assert [label for _, part, label in inputs(form) if "options" in part] == ["모델과 크기", "샘플러"]
    sizes, _ = [part["options"] for _, part, _ in inputs(form) if "options" in part]
    assert [option["label"] for option in sizes] == [
        "demo · 128x128 (1:1)",
        "large · 512x512 (1:1)",
        "large · 768x512 (3:2)",
    ]
    await yuna.message_of(
        await yuna.submit(form, prompt="a ship", size="768x512 large", sampler="euler_ancestral")
    )
    recipe = (await job_of(served.store, "a ship")).recipe
    assert (recipe.model, recipe.width, recipe.height, recipe.sampler) == (
        "large",
        768,
        512,
        "euler_ancestral",
    )


async def test_a_size_that_is_no_longer_offered_is_not_preselected(served: Served, ravi: Member) -> None:
    _, message = await finished(served, ravi, "a boat")
    (offer,) = served.bot.services.offers
    await served.bot.change_offers((replace(offer, sizes=((256, 256),)),))
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    assert fields(form)["size"] == ""
    await ravi.message_of(await ravi.submit(form, prompt="a ship", size="256x256 demo"))
    assert (await job_of(served.store, "a ship")).recipe.width == 256


WHITE = (255, 255, 255)
NOT_KEPT = "\nPictures of a form are not kept: choose them again."
MINA = By(actor_id=PEOPLE[0].id, guild_id=GUILD_ID)


async def opened(member: Member, message: dict[str, Any], *, menu: str = "More") -> dict[str, Any]:
    """The form of “Remix from a picture” in the menu More."""
    return await member.modal_of(await member.press(message, menu, values=["from"]))


async def test_a_result_is_remixed_from_a_picture_and_a_mask_of_the_form(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member, omar: Member
) -> None:
    async with serving(sandbox, store, artifacts, TWO_SIZES) as served:
        _, message = await finished(served, ravi, "a boat", negative_prompt="fog", seed=5, steps=9)
        form = await opened(omar, message)
        assert fields(form) == {
            "prompt": "a boat",
            "image": "",
            "mask": "",
            "strength": "usual",
            "settings": "variants 1, steps 9, guidance 2.2, sampler DDIM, seed 5, model demo",
        }
        uploads = [part for _, part, _ in inputs(form) if part["custom_id"] in ("image", "mask")]
        assert [(part["required"], part["file_types"]) for part in uploads] == [
            (True, ["image"]),
            (False, ["image"]),
        ]
        files = {"image": ("wide.png", picture((900, 600))), "mask": picture(colour=WHITE)}
        await omar.message_of(await omar.submit(form, prompt="a ship", **files))
        job = await job_of(store, "a ship")
        recipe = job.recipe
        assert (recipe.width, recipe.height, recipe.strength) == (192, 128, 1.0)
        assert (recipe.seed, recipe.num_inference_steps, recipe.negative_prompt) == (5, 9, "fog")
        assert (await kept(served, recipe.init_image)).getpixel((45, 30)) == (255, 0, 0)
        assert (await kept(served, recipe.mask_image)).getpixel((5, 5)) == 255
        assert job.origin.parent is not None
        assert (job.origin.parent.descent, job.origin.parent.message_id) == (
            Descent.REMIX,
            int(message["id"]),
        )
        assert str(job.origin.user_id) == (await omar.state())["me"]["id"]


async def test_without_a_file_the_start_picture_and_mask_stay_and_each_can_be_replaced_alone(
    served: Served, ravi: Member
) -> None:
    files = {"image": picture(), "mask": picture(colour=WHITE)}
    job, message = await finished(served, ravi, "a boat", strength=0.4, **files)
    form = await opened(ravi, message)
    assert fields(form)["strength"] == "0.4"
    strengths = next(part for _, part, _ in inputs(form) if part["custom_id"] == "strength")
    assert [option["value"] for option in strengths["options"]] == ["usual", "0.3", "0.4", "0.5", "0.75", "1"]
    before = (job.recipe.init_image, job.recipe.mask_image)
    remixed = {}
    for prompt, given in {
        "none": {},
        "mask": {"mask": picture((30, 30), WHITE), "strength": "0.75"},
        "image": {"image": picture((60, 60)), "strength": "usual"},
        "typed": {"strength": "0.3", "settings": "strength 0.9, size 128x128"},
    }.items():
        await ravi.message_of(await ravi.submit(form, prompt=prompt, **given))
        remixed[prompt] = (await job_of(served.store, prompt)).recipe
    assert (remixed["none"].init_image, remixed["none"].mask_image) == before
    assert remixed["mask"].init_image == before[0]
    assert (await kept(served, remixed["mask"].mask_image)).size == (30, 30)
    assert (await kept(served, remixed["image"].init_image)).size == (60, 60)
    assert remixed["image"].mask_image is None
    assert [recipe.strength for recipe in remixed.values()] == [0.4, 0.75, 0.75, 0.9]


async def test_a_form_whose_file_is_missing_is_refused_in_a_sentence(
    sandbox: Sandbox, served: Served, ravi: Member
) -> None:
    _, message = await finished(served, ravi, "a boat", image=picture())
    form = await opened(ravi, message)
    core = sandbox._core
    shown = core.interactions.get(int(form["interaction_id"]))
    data = submission(form, {"prompt": "a ship", "image": ["99"]})
    channel, member = core.world.channels[shown.channel_id], int((await ravi.state())["me"]["id"])
    sent = core.interactions.begin("modal", member, channel, data, message=shown.message, origin=shown)
    said = "“99” could not be fetched from Discord: please send it again in a minute."
    assert (await refusal(ravi, str(sent.id))).splitlines()[0] == said
    assert await served.store.jobs.active() == []


def hostile() -> Iterator[tuple[dict[str, Any], str]]:
    """Files of the form, and the sentence that refuses them."""
    fine, script = picture(), ("cat.png", b"#!/bin/sh")
    unreadable = "“cat.png” is not a picture that can be read: send a PNG, JPEG or WebP file."
    yield {"image": script}, unreadable
    yield {"image": fine, "mask": script}, unreadable
    yield {"image": ("cat.png", fine[:60])}, unreadable
    yield (
        {"image": ("cat.png", bytes(1 + (1 << 19)))},
        "“cat.png” is larger than 0.5 MB: send a smaller file.",
    )
    yield (
        {"image": fine, "mask": ("cat.png", bytes(1 + (1 << 19)))},
        "“cat.png” is larger than 0.5 MB: send a smaller file.",
    )
    yield (
        {"image": ("cat.png", picture((101, 100)))},
        "“cat.png” has more than 0.01 million pixels: send a smaller picture.",
    )
    yield (
        {"image": ("boat.png", file_of(shapes(1)))},
        "“boat.png” is blocked here, or almost identical to a blocked picture: choose another.",
    )
    yield (
        {"image": fine, "mask": ("hole.png", picture(colour=(0, 0, 0)))},
        "The mask has nothing white: make the part white that is to be repainted.",
    )


@pytest.mark.parametrize("case", range(8))
async def test_files_of_a_form_have_the_limits_and_checks_of_imagine_and_refused_ones_leave_no_file(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member, *, case: int
) -> None:
    config = Config.parse({"pictures": {"max_bytes": 1 << 19, "max_pixels": 20_000 if case == 6 else 10_000}})
    files, sentence = list(hostile())[case]
    async with serving(sandbox, store, artifacts, config) as served:
        _, message = await finished(served, ravi, "a boat")
        await store.known.block(hash_of_file(file_of(shapes(1))), MINA)
        there = [files async for files in artifacts.listing()]
        form = await opened(ravi, message)
        submitted = await ravi.submit(form, prompt="a ship", **files)
        assert await refusal(ravi, submitted) == sentence + NOT_KEPT
        again = await refused_form(ravi, submitted)
        assert (fields(again)["prompt"], fields(again)["image"]) == ("a ship", "")
        assert await store.jobs.active() == []
        assert [files async for files in artifacts.listing()] == there


async def test_a_form_takes_picture_files_only_and_needs_one_where_the_result_started_from_none(
    served: Served, ravi: Member
) -> None:
    _, message = await finished(served, ravi, "a boat")
    form = await opened(ravi, message)
    with pytest.raises(RefusedByClient, match="is not of a type that is taken"):
        await ravi.submit(form, prompt="a ship", image=("cat.svg", b"<svg/>"))
    with pytest.raises(RefusedByClient, match="Start picture: this field is required"):
        await ravi.submit(form, prompt="a ship")


async def test_the_form_is_in_the_language_of_the_person_and_a_private_result_stays_private(
    served: Served, yuna: Member
) -> None:
    _, message = await finished(served, yuna, "a secret", private=True)
    form = await opened(yuna, message, menu="더 보기")
    assert form["title"] == "그림에서 바꿔 그리기"
    assert [label for _, _, label in inputs(form)] == [
        "프롬프트",
        "시작 그림",
        "마스크",
        "그림에서 벗어나는 정도",
        "설정",
    ]
    answer = await yuna.message_of(await yuna.submit(form, prompt="another secret", image=picture()))
    assert ephemeral(answer)


async def test_a_private_result_is_remixed_privately_and_by_its_owner_alone(
    served: Served, ravi: Member
) -> None:
    _, message = await finished(served, ravi, "a secret", private=True)
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    answer = await ravi.message_of(await ravi.submit(form, prompt="another secret"))
    assert ephemeral(answer)
