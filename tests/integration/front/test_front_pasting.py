"""`/imagine recipe:` over the sandbox."""

from __future__ import annotations

from front_tools import ephemeral, finished, job_of, refusal, text_of
from serving import Served

from bot.sandbox.client import Member

FOREIGN = (
    "a {red, blue} boat Negative prompt: fog Steps: 33, Sampler: Euler a, Seed: 77, Size: 128x128, "
    "Model: dreamshaper"
)


async def test_a_pasted_recipe_is_painted_and_its_differences_are_named(served: Served, ravi: Member) -> None:
    await ravi.message_of(await ravi.imagine(prompt="-", recipe=FOREIGN))
    recipe = (await job_of(served.store, "a {red, blue} boat")).recipe
    assert (recipe.negative_prompt, recipe.num_inference_steps, recipe.seed) == ("fog", 33, 77)
    told = await ravi.wait_for_message(
        lambda message: ephemeral(message) and "pasted recipe" in text_of(message)
    )
    assert "- model dreamshaper: here demo" in text_of(told).splitlines()


async def test_saved_settings_change_no_pasted_recipe(served: Served, ravi: Member) -> None:
    form = await ravi.modal_of(await ravi.use("settings"))
    await refusal(ravi, await ravi.submit(form, settings="variants 4", negative_prompt="rain"))
    await ravi.message_of(await ravi.imagine(prompt="-", recipe="a kite Steps: 5, Seed: 1"))
    recipe = (await job_of(served.store, "a kite")).recipe
    assert (recipe.variants, recipe.negative_prompt) == (1, "")


async def test_the_text_of_info_paints_the_same_picture(served: Served, ravi: Member) -> None:
    job, message = await finished(served, ravi, "a crab", seed=9, steps=7, negative_prompt="sand")
    answer = await ravi.message_of(await ravi.press(message, "More", values=["info"]))
    pasted = text_of(answer).split("```")[1].replace("\n", " ")
    await ravi.message_of(await ravi.imagine(prompt="-", recipe=pasted))
    (again,) = await served.store.jobs.active()
    assert again.recipe == job.recipe


async def test_a_text_that_cannot_be_read_is_refused_and_nothing_is_queued(
    served: Served, ravi: Member
) -> None:
    told = await refusal(ravi, await ravi.imagine(prompt="-", recipe="{"))
    assert told
    assert await served.store.jobs.active() == []
