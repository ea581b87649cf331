"""/settings, and the precedence of settings in /imagine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from front_tools import ephemeral, fields, job_of, queued, refusal, text_of
from serving import Served, serving
from test_front_pictures import TWO_SIZES

from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import CHANNELS, GUILD_ID, PEOPLE
from bot.sandbox.modal_rules import inputs
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.people.preferences import Owner, Scope
from bot.store.rows.audit import By

ART = next(channel.id for channel in CHANNELS if channel.name == "art")
(RAVI,) = (user.id for user in PEOPLE if user.username == "ravi")


async def form_of(member: Member, **options: str) -> dict[str, Any]:
    return await member.modal_of(await member.use("settings", **options))


async def saved(member: Member, line: str, *, negative_prompt: str = "", **options: str) -> None:
    form = await form_of(member, **options)
    interaction = await member.submit(form, settings=line, negative_prompt=negative_prompt)
    told = await refusal(member, interaction)
    assert told in ("Saved.", "Reset.")


async def test_saved_settings_are_used_and_shown_in_the_form(
    served: Served, ravi: Member, omar: Member
) -> None:
    await saved(ravi, "steps 9, variants 2", negative_prompt="fog")
    await queued(ravi, "a boat")
    recipe = (await job_of(served.store, "a boat")).recipe
    assert (recipe.num_inference_steps, recipe.variants, recipe.negative_prompt) == (9, 2, "fog")
    await queued(omar, "a ship")
    assert (await job_of(served.store, "a ship")).recipe.variants == 1
    form = await form_of(ravi)
    unset = {"size": "unset", "previews": "unset"}
    assert fields(form) == {"settings": "variants 2, steps 9", "negative_prompt": "fog", **unset}
    assert "**Your settings**: variants 2, steps 9, without: fog" in str(form["components"])
    await saved(ravi, "")
    assert fields(await form_of(ravi)) == {"settings": "", "negative_prompt": "", **unset}


async def test_size_and_previews_are_chosen_and_what_is_typed_counts_before_them(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    async with serving(sandbox, store, artifacts, TWO_SIZES):
        form = await form_of(ravi)
        sizes = next(part for _, part, _ in inputs(form) if part["custom_id"] == "size")
        assert [option["value"] for option in sizes["options"]] == [
            "unset",
            "128x128",
            "192x128",
            "256x256",
        ]
        submitted = await ravi.submit(form, size="192x128", previews="off", settings="steps 9")
        assert await refusal(ravi, submitted) == "Saved."
        form = await form_of(ravi)
        chosen = {"size": "192x128", "previews": "off", "settings": "steps 9"}
        assert fields(form) == {**chosen, "negative_prompt": ""}
        await queued(ravi, "a boat")
        recipe = (await job_of(store, "a boat")).recipe
        assert (recipe.width, recipe.num_inference_steps) == (192, 9)
        await saved(ravi, "size 128x128, previews on")
        assert fields(await form_of(ravi)).items() >= {"size": "128x128", "previews": "on"}.items()
        submitted = await ravi.submit(await form_of(ravi), size="unset", previews="unset")
        assert await refusal(ravi, submitted) == "Reset."


async def test_the_most_specific_settings_apply(served: Served, ravi: Member, mina: Member) -> None:
    await saved(mina, "steps 5, guidance 3, variants 4", scope="server")
    await saved(mina, "steps 6, guidance 4", scope="channel")
    await saved(ravi, "steps 7")
    await queued(ravi, "a boat", variants=1)
    recipe = (await job_of(served.store, "a boat")).recipe
    assert (recipe.num_inference_steps, recipe.guidance_scale, recipe.variants) == (7, 4.0, 1)
    interaction = await ravi.imagine(prompt="elsewhere", channel="general")
    await ravi.message_of(interaction, channel="general")
    recipe = (await job_of(served.store, "elsewhere")).recipe
    assert (recipe.num_inference_steps, recipe.guidance_scale, recipe.variants) == (7, 3.0, 4)


async def test_settings_of_channels_and_servers_are_for_their_managers(served: Served, ravi: Member) -> None:
    for scope, right in (("channel", "Channels"), ("server", "Server")):
        told = await refusal(ravi, await ravi.use("settings", scope=scope))
        assert told.startswith(f"You need Manage {right} to change ")
    told_in_private = await ravi.use("settings", scope="server", channel="dm")
    message = await ravi.message_of(told_in_private, channel="dm")
    assert text_of(message).strip() == (
        "Only servers with the bot have channel and server settings: change your own here."
    )


async def test_all_mistakes_of_a_form_are_named_each_on_its_line(served: Served, ravi: Member) -> None:
    form = await form_of(ravi)
    told = await refusal(ravi, await ravi.submit(form, settings="guidence 7, steps many, size 9x9, seed 1"))
    lines = told.strip().split("\n")
    assert [line.partition(":")[0] for line in lines] == [
        "- “guidence 7, seed 1” is not a setting",
        "- The setting steps takes a number, not “many”",
        "- demo does not paint 9x9",
    ]


async def test_unsuitable_settings_are_left_out_and_named_below_the_request(
    served: Served, ravi: Member
) -> None:
    await served.store.preferences.put(Owner(scope=Scope.ME, id=RAVI), {"size": "64x64", "steps": 9})
    asked = await ravi.imagine(prompt="a boat")
    await ravi.message_of(asked, lambda message: "a boat" in text_of(message) and not ephemeral(message))
    assert (await job_of(served.store, "a boat")).recipe.num_inference_steps == 9
    told = await ravi.wait_for_message(ephemeral)
    assert text_of(told).strip().endswith("do not suit this request and were left out: size.")


async def test_sizes_and_second_passes_are_those_of_the_saved_model(
    served: Served, ravi: Member, omar: Member
) -> None:
    (offer,) = served.bot.services.offers
    large = replace(offer, model="large", sizes=((512, 512), (1024, 1024)), loras=("ink",))
    await served.bot.change_offers((offer, large))
    await saved(ravi, "model large")
    for prompt, typed in {
        "a boat": {"size": "1024x1024"},
        "a ship": {"hires": "1024x1024"},
        "a raft": {"lora": "ink"},
        "{red, blue} sail": {"size": "1024x1024"},
    }.items():
        interaction = await ravi.imagine(prompt=prompt, **typed)
        if "{" in prompt:
            interaction = await ravi.submit(await ravi.modal_of(interaction))
        await ravi.message_of(interaction)
        painted = await job_of(served.store, prompt.replace("{red, blue}", "red"))
        assert painted.recipe.model == "large"
    suggested = await ravi.autocomplete("imagine", "size", "", prompt="a boat")
    assert [choice["value"] for choice in suggested] == ["512x512", "1024x1024"]
    told = await refusal(omar, await omar.imagine(prompt="a canoe", size="1024x1024"))
    assert "1024x1024" in told


async def test_a_saved_negative_prompt_never_locks_people_out_by_a_rule(
    served: Served, ravi: Member, mina: Member
) -> None:
    await saved(mina, "", negative_prompt="blood", scope="server")
    by = By(actor_id=PEOPLE[0].id, guild_id=GUILD_ID)
    await served.store.prompt_rules.put(PromptRule(name="Gore", action=Action.REFUSE, terms=("blood",)), by)
    asked = await ravi.imagine(prompt="a boat")
    await ravi.message_of(asked, lambda message: "a boat" in text_of(message) and not ephemeral(message))
    assert (await job_of(served.store, "a boat")).recipe.negative_prompt == ""
    told = await ravi.wait_for_message(ephemeral)
    assert text_of(told).strip().endswith("do not suit this request and were left out: negative_prompt.")
    form = await form_of(mina, scope="channel")
    said = await refusal(mina, await mina.submit(form, settings="", negative_prompt="no blood"))
    assert said.startswith("The rule “Gore” of this server does not allow this")
    assert await served.store.preferences.of(Owner(scope=Scope.CHANNEL, id=ART)) == [{}]
