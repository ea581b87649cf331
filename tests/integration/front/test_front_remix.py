"""Changing the words and settings of a result in a form."""

from __future__ import annotations

import io
from dataclasses import replace

import PIL.Image
from front_tools import ephemeral, fields, finished, job_of, refusal, refused_form, text_of
from serving import Served

from bot.domain.jobs import Descent
from bot.sandbox.client import Member
from bot.sandbox.modal_rules import inputs


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


async def test_a_remix_keeps_the_start_picture_and_its_strength(served: Served, ravi: Member) -> None:
    file = io.BytesIO()
    PIL.Image.new("RGB", (128, 128), "navy").save(file, "PNG")
    picture = ("start.png", file.getvalue(), "image/png")
    job, message = await finished(served, ravi, "a boat", image=picture, strength=0.4)
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    await ravi.message_of(await ravi.submit(form, prompt="a ship", settings="steps 8"))
    recipe = (await job_of(served.store, "a ship")).recipe
    assert (recipe.init_image, recipe.strength) == (job.recipe.init_image, 0.4)


async def test_a_refused_form_gives_the_reason_and_returns_the_text(served: Served, ravi: Member) -> None:
    _, message = await finished(served, ravi, "a boat")
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    submitted = await ravi.submit(form, prompt="a red ```boat", settings="steps many")
    assert await refusal(ravi, submitted) == "The setting steps takes a number, not “many”: type one."
    held = fields(await refused_form(ravi, submitted))
    assert (held["prompt"], held["settings"]) == ("a red ```boat", "steps many")
    assert await served.store.jobs.active() == []


async def test_a_private_result_is_remixed_privately_and_by_its_owner_alone(
    served: Served, ravi: Member
) -> None:
    _, message = await finished(served, ravi, "a secret", private=True)
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    answer = await ravi.message_of(await ravi.submit(form, prompt="another secret"))
    assert ephemeral(answer)


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
