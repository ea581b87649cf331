"""/style, and styles in /imagine, /settings and Remix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from front_tools import fields, finished, job_of, refusal, text_of
from results import shows_result
from serving import Served, serving

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store


async def add(member: Member, name: str, **values: str) -> str:
    """Add a style by its form; return what is said."""
    form = await member.modal_of(await member.use("style add", name=name))
    return await refusal(member, await member.submit(form, name=name, **values))


async def suggested(member: Member, command: str, option: str, typed: str, **options: Any) -> list[str]:
    return [choice["value"] for choice in await member.autocomplete(command, option, typed, **options)]


async def test_a_style_is_added_suggested_used_and_named_under_the_picture(
    served: Served, mina: Member, ravi: Member
) -> None:
    link = "https://discord.com/channels/1300000000000000000/5/6"
    settings = "steps 30, guidance 9"
    told = await add(
        mina,
        "Ink",
        prompt="ink drawing of {prompt}",
        negative_prompt="photo",
        settings=settings,
        example=link,
    )
    assert told == "Saved: the style Ink."
    assert await suggested(ravi, "imagine", "style", "in", prompt="x") == ["Ink"]
    await ravi.message_of(await ravi.imagine(prompt="a boat", style="INK", guidance=3.0))
    job = await job_of(served.store, "ink drawing of a boat")
    recipe = job.recipe
    assert (recipe.style, recipe.negative_prompt) == ("Ink", "photo")
    assert (recipe.num_inference_steps, recipe.guidance_scale) == (30, 3.0)
    await served.paint(job.id)
    await ravi.wait_for_message(lambda message: "style Ink" in text_of(message) and shows_result(message))
    shown = await refusal(ravi, await ravi.use("style show", name="ink"))
    assert "ink drawing of {prompt}" in shown
    assert "without: photo" in shown
    assert settings in shown
    assert f"[Example]({link})" in shown


async def test_the_form_has_the_style_of_the_name_and_replaces_it(served: Served, mina: Member) -> None:
    await add(mina, "Ink", prompt="old", settings="steps 30")
    form = await mina.modal_of(await mina.use("style add", name="ink"))
    assert fields(form) == {
        "name": "Ink", "prompt": "old", "negative_prompt": "", "settings": "steps 30", "example": "",
    }  # fmt: skip
    await refusal(mina, await mina.submit(form, prompt="new"))
    assert "new" in await refusal(mina, await mina.use("style show", name="ink"))
    assert await refusal(mina, await mina.use("style remove", name="INK")) == "Removed: the style INK."
    assert "no styles" in await refusal(mina, await mina.use("style show"))


async def test_a_result_of_this_server_can_be_the_example(served: Served, mina: Member, ravi: Member) -> None:
    job, message = await finished(served, ravi, "a boat")
    await add(mina, "Ink", example=job.id)
    shown = await refusal(ravi, await ravi.use("style show", name="ink"))
    assert f"/{message['id']})" in shown


async def test_a_style_in_the_settings_is_used_until_it_is_gone(
    served: Served, mina: Member, ravi: Member
) -> None:
    await add(mina, "Ink, dry", prompt="dry ink", settings="steps 30, variants 2")
    form = await ravi.modal_of(await ravi.use("settings"))
    assert "no style" in await refusal(ravi, await ravi.submit(form, settings="style Fog"))
    form = await ravi.modal_of(await ravi.use("settings"))
    assert await refusal(ravi, await ravi.submit(form, settings="style ink, dry, steps 9")) == "Saved."
    await ravi.message_of(await ravi.imagine(prompt="a boat"))
    recipe = (await job_of(served.store, "a boat, dry ink")).recipe
    assert (recipe.num_inference_steps, recipe.variants, recipe.style) == (9, 2, "Ink, dry")
    await ravi.message_of(await ravi.imagine(prompt="a bare boat", style="-"))
    assert (await job_of(served.store, "a bare boat")).recipe.style == ""
    await mina.use("style remove", name="ink, dry")
    await mina.wait_for_message(lambda message: "Removed" in text_of(message))
    asked = await ravi.imagine(prompt="a ship")
    await ravi.message_of(asked, lambda message: "a ship" in text_of(message))
    assert (await job_of(served.store, "a ship")).recipe.num_inference_steps == 9
    await ravi.wait_for_message(lambda message: "were left out: style" in text_of(message))


async def test_remix_puts_a_style_around_the_prompt(served: Served, mina: Member, ravi: Member) -> None:
    await add(mina, "Ink", prompt="ink drawing of {prompt}")
    _, message = await finished(served, ravi, "a boat")
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    settings = fields(form)["settings"] + ", style ink"
    await ravi.message_of(await ravi.submit(form, settings=settings))
    assert (await job_of(served.store, "ink drawing of a boat")).recipe.style == "Ink"


async def test_the_styles_of_the_configuration_are_in_every_server(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object, mina: Member
) -> None:
    config = Config.parse({"prompts": {"styles_file": "starter"}})
    async with serving(sandbox, store, artifacts, config) as served:
        assert await suggested(mina, "imagine", "style", "ni", prompt="x") == ["Night"]
        await mina.message_of(await mina.imagine(prompt="a red star", style="night"))
        job = await job_of(served.store, "a red star on a black background")
        assert replace(job.recipe, prompt="", seed=0).style == "Night"
        told = await refusal(mina, await mina.use("style remove", name="Night"))
        assert told == "Every server has this style: the bot's owner can remove it."
        assert await add(mina, "Night", prompt="{prompt} at midnight") == "Saved: the style Night."
        await mina.message_of(await mina.imagine(prompt="a star", style="night"))
        assert await job_of(served.store, "a star at midnight")
