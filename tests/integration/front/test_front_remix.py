"""Changing the words and settings of a result in a form."""

from __future__ import annotations

import io

import PIL.Image
from front_tools import ephemeral, fields, finished, job_of, refusal, refused_form, text_of
from serving import Served

from bot.jobs import Descent
from bot.sandbox.client import Member


async def test_the_form_holds_the_words_and_settings_and_paints_what_was_changed(
    served: Served, ravi: Member, omar: Member
) -> None:
    _, message = await finished(served, ravi, "a boat", negative_prompt="fog", seed=5, steps=9)
    form = await omar.modal_of(await omar.press(message, "Remix"))
    assert fields(form) == {
        "prompt": "a boat",
        "negative_prompt": "fog",
        "settings": "size 128x128, variants 1, steps 9, guidance 2.2, sampler DDIM, seed 5, model demo",
    }
    given = {"prompt": "a red boat", "settings": "size 128x128, steps 12, seed 5"}
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
