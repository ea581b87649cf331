"""Alternatives and wildcards in /imagine, and /wildcard."""

from __future__ import annotations

from typing import Any

import aiohttp
import discord
import pytest
from front_tools import ephemeral, fields, refusal, refused_form, text_of
from results import shows_result
from serving import Served, serving

from bot.config import Config
from bot.domain.jobs import Job
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import MODERATORS_ID, PEOPLE
from bot.sandbox.modal_rules import inputs
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.people.preferences import Owner, Scope
from sdjax_engine.request import Lora

(RAVI,) = (user.id for user in PEOPLE if user.username == "ravi")
PROMPT = r"{red, blue} bird \(sd\)"


async def form_of(member: Member, **options: Any) -> dict[str, Any]:
    return await member.modal_of(await member.imagine(**options))


async def jobs_of(store: Store) -> list[Job]:
    return sorted(await store.jobs.active(), key=lambda job: job.origin.interaction_id)


async def add_list(member: Member, name: str, *entries: str) -> str:
    form = await member.modal_of(await member.use("wildcard add", name=name))
    return await refusal(member, await member.submit(form, name=name, entries="\n".join(entries)))


async def test_number_and_cost_are_confirmed_and_each_prompt_becomes_a_job_with_a_message(
    served: Served, ravi: Member
) -> None:
    form = await form_of(ravi, prompt=PROMPT, variants=2, steps=9)
    assert "Prompts: 2. Pictures: 4. Places in the queue: 2." in str(form["components"])
    typed = {"prompt": PROMPT, "negative_prompt": "", "settings": "variants 2, steps 9"}
    assert fields(form) == {**typed, "private": ""}
    assert await jobs_of(served.store) == []
    await ravi.submit(form)
    for words in (r"red bird \(sd\)", r"blue bird \(sd\)"):
        await ravi.wait_for_message(lambda message, words=words: words.split()[0] in text_of(message))
    jobs = await jobs_of(served.store)
    assert [job.recipe.prompt for job in jobs] == [r"red bird \(sd\)", r"blue bird \(sd\)"]
    assert len({job.recipe.seed for job in jobs}) == 1
    assert {(job.recipe.variants, job.recipe.num_inference_steps) for job in jobs} == {(2, 9)}
    for job in jobs:
        await served.paint(job.id)
    shown = [
        await ravi.wait_for_message(
            lambda message, colour=colour: colour in text_of(message) and shows_result(message)
        )
        for colour in ("red", "blue")
    ]
    assert shown[0]["id"] != shown[1]["id"]
    assert len(await ravi.messages()) == 2


async def test_the_form_has_room_for_every_lora_of_a_pasted_recipe(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object, ravi: Member
) -> None:
    names = [f"{number:02}-a-lora-with-a-name-that-says-what-it-does" for number in range(32)]
    config = Config.parse({"models": [{"loras": dict.fromkeys(names, "any.safetensors")}]})
    recipe = "a kite " + "".join(f"<lora:{name}:0.8125>" for name in names) + "\nSteps: 9, Sampler: Euler"
    async with serving(sandbox, store, artifacts, config):
        await ravi.submit(await form_of(ravi, prompt="{red, blue} boat", recipe=recipe))
        await ravi.wait_for_message(lambda message: "blue boat" in text_of(message))
        for job in await jobs_of(store):
            assert job.recipe.loras == tuple(Lora(name=name, weight=0.8125) for name in names)
            assert job.recipe.num_inference_steps == 9


async def test_the_form_works_after_a_restart_and_keeps_a_private_request_private(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object, ravi: Member
) -> None:
    async with serving(sandbox, store, artifacts, Config()):
        form = await form_of(ravi, prompt="{red, blue} bird", private=True)
    async with serving(sandbox, store, artifacts, Config()) as served:
        await ravi.submit(form)
        await ravi.wait_for_message(lambda message: "blue bird" in text_of(message))
        assert all(map(ephemeral, await ravi.messages()))
        for job in await jobs_of(store):
            await served.paint(job.id)
        await ravi.wait_for_message(lambda m: "blue" in text_of(m) and shows_result(m))
        await ravi.wait_for_message(lambda m: "red" in text_of(m) and shows_result(m))


async def test_the_checkbox_of_the_form_says_who_sees_the_pictures(
    served: Served, ravi: Member, omar: Member
) -> None:
    await ravi.submit(await form_of(ravi, prompt="{red, blue} bird"), private=True)
    await ravi.wait_for_message(lambda message: "blue bird" in text_of(message))
    await ravi.submit(await form_of(ravi, prompt="{red, blue} fish", private=True), private=False)
    await ravi.wait_for_message(lambda message: "blue fish" in text_of(message))
    assert all("fish" in text_of(message) for message in await omar.messages())
    private = {job.recipe.prompt: job.origin.private for job in await jobs_of(served.store)}
    assert private == {"red bird": True, "blue bird": True, "red fish": False, "blue fish": False}
    form = await form_of(ravi, prompt="{red, blue} bird")
    again = await refused_form(ravi, await ravi.submit(form, settings="steps many", private=True))
    [box] = [part for _, part, _ in inputs(again) if part["custom_id"] == "private"]
    assert box["default"]


async def test_too_many_prompts_are_refused_before_they_are_expanded(
    sandbox: Sandbox,
    store: Store,
    artifacts: Artifacts,
    discord_address: object,
    *,
    ravi: Member,
    mina: Member,
) -> None:
    config = Config.parse(
        {
            "prompts": {"max_permutations": 3},
            "queue": {"roles": [{"role": MODERATORS_ID, "max_permutations": 4}]},
        }
    )
    async with serving(sandbox, store, artifacts, config):
        told = await refusal(ravi, await ravi.imagine(prompt="{a, b} {c, d}"))
        assert told.startswith("These alternatives make 4 prompts, and you may ask for 3 at once")
        form = await form_of(mina, prompt="{a, b} {c, d}")
        submitted = await mina.submit(form, prompt="{a, b}" * 300)
        told = await refusal(mina, submitted)
        assert told.startswith("These alternatives make 1000000000+ prompts, and you may ask for 4")
        assert fields(await refused_form(mina, submitted))["prompt"] == "{a, b}" * 300
        assert await jobs_of(store) == []


async def test_prompts_over_the_cap_are_reported_and_the_others_stay_queued(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object, ravi: Member
) -> None:
    config = Config.parse({"queue": {"max_waiting_per_user": 2}})
    async with serving(sandbox, store, artifacts, config):
        await ravi.submit(await form_of(ravi, prompt="{red, green, blue} bird"))
        told = await ravi.wait_for_message(lambda message: "prompts are in the queue" in text_of(message))
        assert (
            text_of(told)
            .strip()
            .startswith("2 of 3 prompts are in the queue. At most 2 of your pictures can wait")
        )
        assert [job.recipe.prompt for job in await jobs_of(store)] == ["red bird", "green bird"]
        assert sum(not ephemeral(message) for message in await ravi.messages()) == 2


async def test_a_message_that_discord_does_not_take_ends_the_row_and_keeps_the_first_picture(
    served: Served, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = await form_of(ravi, prompt="{red, green, blue} bird")
    send, cut = discord.Webhook.send, [True]

    async def cut_once(self: discord.Webhook, *arguments: Any, **named: Any) -> Any:
        if cut:
            raise aiohttp.ServerDisconnectedError(f"{cut.pop()}")
        return await send(self, *arguments, **named)

    monkeypatch.setattr(discord.Webhook, "send", cut_once)
    await ravi.submit(form)
    told = await ravi.wait_for_message(lambda message: "prompts are in the queue" in text_of(message))
    assert "1 of 3 prompts are in the queue. Discord took no further message" in text_of(told)
    (job,) = await jobs_of(served.store)
    await served.paint(job.id)
    await ravi.wait_for_message(lambda message: "red" in text_of(message) and shows_result(message))


async def test_a_list_is_stored_drawn_from_by_the_seed_and_removed(
    served: Served, mina: Member, ravi: Member
) -> None:
    assert (
        await add_list(mina, "Colour", "red", "짙은 파랑", "green")
        == r"Saved: write \_\_Colour\_\_ in a prompt."
    )
    for _ in range(2):
        await ravi.message_of(await ravi.imagine(prompt="a __colour__ __colour__ bird", seed=7))
    first, second = await jobs_of(served.store)
    assert first.recipe == second.recipe
    assert "__" not in first.recipe.prompt
    shown = await refusal(ravi, await ravi.use("wildcard show", name="COLOUR"))
    assert "짙은 파랑" in shown
    assert "3 entries" in await refusal(ravi, await ravi.use("wildcard show"))
    form = await mina.modal_of(await mina.use("wildcard add", name="colour"))
    assert fields(form) == {"name": "Colour", "entries": "red\n짙은 파랑\ngreen"}
    told = await refusal(ravi, await ravi.use("wildcard remove", name="colour"))
    assert told.startswith("You need the permission Manage Messages")
    choices = await mina.autocomplete("wildcard remove", "name", "co")
    assert [choice["value"] for choice in choices] == ["Colour"]
    assert (
        await refusal(mina, await mina.use("wildcard remove", name="colour")) == "Removed: the list colour."
    )
    told = await refusal(ravi, await ravi.imagine(prompt="a __colour__ bird"))
    assert told.startswith("There is no list “colour”")


async def test_saved_settings_that_do_not_suit_are_named_once_for_all_prompts(
    served: Served, ravi: Member
) -> None:
    await served.store.preferences.put(Owner(scope=Scope.ME, id=RAVI), {"size": "64x64", "steps": 9})
    await ravi.submit(await form_of(ravi, prompt="{red, blue} bird"))
    await ravi.wait_for_message(lambda message: "blue bird" in text_of(message))
    told = [text_of(message) for message in await ravi.messages() if ephemeral(message)]
    assert [words.rpartition(":")[2].strip() for words in told] == ["size."]
    assert {job.recipe.num_inference_steps for job in await jobs_of(served.store)} == {9}


async def test_drawn_words_that_make_a_prompt_too_long_are_refused(served: Served, mina: Member) -> None:
    await add_list(mina, "long", "x" * 200)
    told = await refusal(mina, await mina.imagine(prompt="__long__ " * 11))
    assert "2000" in told
    form = await form_of(mina, prompt="{red, blue} " + "__long__ " * 11)
    told = await refusal(mina, await mina.submit(form))
    assert "2000" in told
    assert await jobs_of(served.store) == []
