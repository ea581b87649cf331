"""“Use this recipe” in the menu of a message, with a real client on the sandbox."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from front_tools import ephemeral, fields, finished, job_of, refusal, refused_form, text_of
from recipe_messages import A1111, FILES, GRAPH, MENU, NONE, opened, png, said, told
from serving import Served, serving

from bot.config import Config
from bot.domain.jobs import Descent
from bot.files.artifacts import Artifacts
from bot.front.commands import use_recipe
from bot.front.services.kept_values import KeptValues
from bot.front.uploads.messages import MessageRecipe
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store
from sdjax_engine.request import Sampler


async def test_a_text_fills_the_form_with_its_differences_and_is_painted_literally(
    served: Served, ravi: Member, omar: Member
) -> None:
    form = await opened(omar, await ravi.say(A1111))
    assert form["title"] == MENU
    assert fields(form) == {
        "prompt": "a {red, blue} boat",
        "negative_prompt": "rain",
        "size": "128x128 demo",
        "settings": "variants 1, steps 33, guidance 6.125, sampler Euler ancestral, seed 77",
    }
    assert said(form).split("\n") == [
        "What differs here from this recipe:",
        "- model dreamshaper: here demo",
        "- lora fog:1: left out",
        "- clip_skip 2: left out",
    ]
    answer = await omar.message_of(await omar.submit(form))
    assert not ephemeral(answer)
    job = await job_of(served.store, "a {red, blue} boat")
    assert (job.recipe.negative_prompt, job.recipe.seed, job.recipe.guidance_scale) == ("rain", 77, 6.125)
    assert (job.recipe.num_inference_steps, job.recipe.sampler) == (33, Sampler.EULER_ANCESTRAL)
    assert str(job.origin.user_id) == (await omar.state())["me"]["id"]
    assert job.origin.parent is None


async def test_without_a_seed_the_form_has_none_and_shows_the_defaults_of_open_settings(
    served: Served, ravi: Member
) -> None:
    form = await opened(ravi, await ravi.say("a kite\nSteps: 9, Sampler: Euler"))
    assert fields(form) == {
        "prompt": "a kite",
        "negative_prompt": "",
        "size": "128x128 demo",
        "sampler": "euler",
        "settings": "variants 1, steps 9, guidance 2.2",
    }
    assert said(form) == ""
    await ravi.message_of(await ravi.submit(form, prompt="a red kite", settings="steps 12"))
    assert (await job_of(served.store, "a red kite")).recipe.num_inference_steps == 12


@pytest.mark.parametrize("name", FILES)
async def test_a_file_of_each_kind_is_read_and_named(served: Served, ravi: Member, name: str) -> None:
    form = await opened(ravi, await ravi.say("mine", (name, FILES[name])))
    filled = fields(form)
    assert filled["prompt"] in ("a {red, blue} boat", "a boat")
    assert filled["negative_prompt"] == "rain"
    assert "steps 33" in filled["settings"]
    assert "seed 77" in filled["settings"]
    assert said(form).startswith(f"Read from {name.replace('_', chr(92) + '_')}.")


async def test_the_first_file_with_a_recipe_counts(served: Served, ravi: Member) -> None:
    files = (("plain.png", png()), ("notes.txt", b"words"), ("a.png", FILES["a1111.png"]))
    assert said(await opened(ravi, await ravi.say("", *files))).startswith("Read from a.png.")


async def test_a_result_of_this_bot_opens_remix_and_links_its_message(
    served: Served, ravi: Member, omar: Member
) -> None:
    _, message = await finished(served, ravi, "a boat", negative_prompt="fog", seed=5, steps=9)
    form = await opened(omar, message)
    assert form["title"] == "Remix"
    assert fields(form)["settings"].startswith("variants 1, steps 9")
    await omar.message_of(await omar.submit(form, prompt="a red boat"))
    job = await job_of(served.store, "a red boat")
    assert job.origin.parent is not None
    assert (job.origin.parent.descent, job.origin.parent.message_id) == (Descent.REMIX, int(message["id"]))
    assert job.origin.parent.channel_id == int(message["channel_id"])


async def test_a_request_that_waits_is_a_recipe_too(served: Served, ravi: Member) -> None:
    waiting = await ravi.message_of(await ravi.imagine(prompt="a boat"))
    assert fields(await opened(ravi, waiting))["prompt"] == "a boat"


async def test_a_private_result_stays_private_with_its_owner(served: Served, ravi: Member) -> None:
    _, message = await finished(served, ravi, "a secret", private=True)
    form = await opened(ravi, message)
    answer = await ravi.message_of(await ravi.submit(form, prompt="another secret"))
    assert ephemeral(answer)
    job = await job_of(served.store, "another secret")
    assert job.origin.parent is not None
    assert job.origin.parent.message_id is None


async def test_the_text_of_info_is_used_as_privately_as_it_was_shown(served: Served, ravi: Member) -> None:
    _, message = await finished(served, ravi, "a crab", seed=9, steps=7)
    info = await ravi.message_of(await ravi.press(message, "More", values=["info"]))
    form = await opened(ravi, info)
    assert "steps 7" in fields(form)["settings"]
    assert ephemeral(await ravi.message_of(await ravi.submit(form, prompt="a red crab")))


@pytest.mark.parametrize("content", ["hello everybody", "{red, blue} {", "Steps: many", "```\ncode\n```"])
async def test_ordinary_text_has_no_recipe(served: Served, ravi: Member, content: str) -> None:
    assert await told(ravi, await ravi.say(content)) == NONE
    assert await told(ravi, await ravi.say(content, ("plain.png", png()), ("song.mp3", b"la"))) == NONE


async def test_an_unreadable_file_is_reported(served: Served, ravi: Member) -> None:
    two = {**GRAPH, "8": {"class_type": "KSampler", "inputs": {}}, "9": {"class_type": "SaveImage"}}
    two["9"] = {"class_type": "SaveImage", "inputs": {"images": ["8", 0]}}
    sentence = await told(ravi, await ravi.say("", ("flow.json", json.dumps(two).encode())))
    assert sentence.startswith("This ComfyUI workflow has no single path")
    assert (await told(ravi, await ravi.say("", ("long.txt", b"x" * 70_000)))).startswith(
        "This generation data is longer than 64 kB"
    )


async def test_files_over_the_limit_are_reported(served: Served, ravi: Member) -> None:
    message = await ravi.say("", *((f"{number}.png", png()) for number in range(5)))
    assert await told(ravi, message) == (
        "Neither this message nor its first 4 files say how a picture was painted: choose another message."
    )


async def test_a_heavy_file_is_refused_before_it_is_fetched(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    config = Config.parse({"pictures": {"max_bytes": 1024}})
    async with serving(sandbox, store, artifacts, config):
        sentence = await told(ravi, await ravi.say("", ("own.png", bytes(1025))))
        assert sentence == "“own.png” is larger than 0.0009766 MB: send a smaller file."


@pytest.fixture
def slow(served: Served, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Delay files until the event is set; forms do not wait for them."""
    fetch, come = served.bot.services.attachments.fetch, asyncio.Event()

    async def slowly(address: str, **how: Any) -> bytes:
        await come.wait()
        return await fetch(address, **how)

    monkeypatch.setattr(served.bot.services.attachments, "fetch", slowly)
    monkeypatch.setattr(use_recipe, "FORM_SECONDS", 0.0)
    return come


async def test_a_slow_file_gets_an_answer_whose_button_opens_the_form(
    served: Served, ravi: Member, slow: asyncio.Event
) -> None:
    interaction = await ravi.menu(await ravi.say("", ("own.png", FILES["own.png"])), MENU)
    await ravi.message_of(interaction, lambda message: bool(message["flags"] & 128))
    slow.set()
    answer = await ravi.message_of(interaction)
    assert ephemeral(answer)
    assert "The recipe in own.png is read." in text_of(answer)
    form = await ravi.modal_of(await ravi.press(answer, "Open the form"))
    assert fields(form)["prompt"] == "a boat"
    assert not ephemeral(await ravi.message_of(await ravi.submit(form)))
    nothing_kept: KeptValues[MessageRecipe] = KeptValues(clock=time.monotonic)  # as after a restart
    served.bot.services = replace(served.bot.services, kept_recipes=nothing_kept)
    sentence = await refusal(ravi, await ravi.press(answer, "Open the form"))
    assert sentence == "The bot no longer knows this form: choose it in the menu of the message again."


async def test_a_form_over_changed_limits_is_refused_and_returned(served: Served, ravi: Member) -> None:
    form = await opened(ravi, await ravi.say("a boat\nSteps: 33, Sampler: Euler, Size: 128x128"))
    offer = served.bot.services.offers[0]
    await served.bot.change_offers((replace(offer, sizes=((256, 256),), max_steps=20),))
    submitted = await ravi.submit(form)
    assert "128x128" in await refusal(ravi, submitted)
    assert fields(await refused_form(ravi, submitted)).items() >= fields(form).items()
    assert await served.store.jobs.active() == []
    again = fields(await opened(ravi, await ravi.say("a boat\nSteps: 33, Sampler: Euler, Size: 128x128")))
    assert (again["size"], again["settings"][:20]) == ("256x256 demo", "variants 1, steps 20")


async def test_a_form_works_after_its_message_was_deleted(served: Served, ravi: Member, mina: Member) -> None:
    said_before = await ravi.say(A1111)
    form = await opened(ravi, said_before)
    await mina.delete(said_before)
    assert "Queued" in text_of(await ravi.message_of(await ravi.submit(form)))
