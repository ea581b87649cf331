"""What a person typed comes back in a form if it is refused, and as text after a restart."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from front_tools import ephemeral, fields, finished, job_of, queued, refusal, refused_form, text_of
from serving import Served, serving, until
from test_front_pictures import picture

from bot.config import Config
from bot.domain.errors import StoreUnavailable
from bot.files.artifacts import Artifacts
from bot.front.services.kept_values import KeptValues
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.moderation.policies import PolicyScope
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.rows.audit import By

Serve = Callable[[dict[str, Any]], AbstractAsyncContextManager[Served]]
MINA = By(actor_id=PEOPLE[0].id, guild_id=GUILD_ID)
LONG = "a castle above the clouds, " * 60
A1111 = "a red kite {literally}\nSteps: 999, Sampler: Euler a, CFG scale: 7, Seed: 5, Size: 128x128"


@pytest.fixture
def serve(sandbox: Sandbox, store: Store, artifacts: Artifacts) -> Serve:
    """Serves the sandbox as a configuration says."""
    return lambda document: serving(sandbox, store, artifacts, Config.parse(document))


async def forbid(store: Store, word: str) -> None:
    await store.prompt_rules.put(PromptRule(name="No", action=Action.REFUSE, terms=(word,)), MINA)


def restart(served: Served) -> None:
    """Forget the forms, as a restart does."""
    forms: KeptValues[Any] = served.bot.services.kept_forms
    forms._of.clear()


async def test_all_of_a_refused_request_comes_back_in_a_form_that_can_be_sent(
    served: Served, ravi: Member
) -> None:
    await forbid(served.store, "blood")
    options: dict[str, Any] = {"variants": 2, "seed": 7, "steps": 5, "guidance": 3.5, "sampler": "euler"}
    prompt = f"{LONG.strip()} blood"
    form = await refused_form(ravi, await ravi.imagine(prompt=prompt, negative_prompt="fog", **options))
    held = fields(form)
    assert (held["prompt"], held["negative_prompt"]) == (prompt, "fog")
    submitted = await ravi.submit(form, prompt="a castle")
    assert not ephemeral(await ravi.message_of(submitted))
    recipe = (await job_of(served.store, "a castle")).recipe
    assert (recipe.variants, recipe.seed, recipe.num_inference_steps) == (2, 7, 5)
    assert (recipe.guidance_scale, recipe.sampler, recipe.negative_prompt) == (3.5, "euler", "fog")


async def test_a_refused_private_request_stays_private_when_it_is_sent_again(
    served: Served, ravi: Member
) -> None:
    await forbid(served.store, "blood")
    form = await refused_form(ravi, await ravi.imagine(prompt="blood", private=True))
    assert ephemeral(await ravi.message_of(await ravi.submit(form, prompt="a secret")))
    assert (await job_of(served.store, "a secret")).origin.private


REASONS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "size": ({}, {}, {"size": "999x999"}),
    "strength": ({}, {}, {"strength": 0.5}),
    "alternatives": ({}, {}, {"prompt": "a {red, blue} boat" + " {a, b, c}" * 3}),
    "list": ({}, {}, {"prompt": "a __nowhere__"}),
    "policy": ({}, {"variants": 2}, {"variants": 3}),
    "quota": ({}, {"pictures_per_hour": 1}, {"variants": 2}),
    "queue": ({"queue": {"max_waiting_per_user": 1}}, {}, {}),
    "rate": ({"limits": {"requests_per_minute": 1}}, {}, {}),
}
"""A configuration, a policy of the server and options that are refused together."""


@pytest.mark.parametrize("reason", REASONS)
async def test_every_reason_for_a_refusal_leaves_a_form(
    serve: Serve, ravi: Member, store: Store, reason: str
) -> None:
    document, policy, options = REASONS[reason]
    if policy:
        await store.policies.put(PolicyScope.SERVER, GUILD_ID, policy, MINA)
    async with serve(document):
        if reason in ("rate", "queue"):
            await queued(ravi, "the first")
        asked = {"prompt": "a boat", **options}
        form = await refused_form(ravi, await ravi.imagine(**asked))
        assert fields(form)["prompt"] == asked["prompt"]


async def test_what_cannot_be_kept_is_named_a_picture_must_be_sent_again(
    served: Served, ravi: Member
) -> None:
    await forbid(served.store, "blood")
    asked = await ravi.imagine(prompt="blood", image=picture(), strength=0.4)
    assert (await refusal(ravi, asked)).endswith("\nThe picture is not kept: send it again with /imagine.")
    form = await refused_form(ravi, asked)
    assert "The picture is not kept" in str(form["components"][0])
    assert "strength" not in fields(form)["settings"]


async def test_a_pasted_recipe_comes_back_as_a_form_and_unreadable_text_as_text(
    served: Served, ravi: Member
) -> None:
    await forbid(served.store, "kite")
    form = await refused_form(ravi, await ravi.imagine(prompt="-", recipe=A1111))
    assert fields(form)["prompt"] == "a red kite {literally}"
    await ravi.message_of(await ravi.submit(form, prompt="a red boat {literally}"))
    assert (await job_of(served.store, "a red boat {literally}")).recipe.seed == 5
    await ravi.imagine(prompt="a kettle", recipe="no recipe at all")
    back = await ravi.wait_for_message(lambda message: "no recipe at all" in text_of(message))
    assert ephemeral(back)
    assert "a kettle" in text_of(back)


async def test_a_refused_remix_keeps_its_parent_and_a_second_refusal_its_words(
    served: Served, ravi: Member, omar: Member
) -> None:
    _, message = await finished(served, ravi, "a boat")
    await forbid(served.store, "blood")
    form = await omar.modal_of(await omar.press(message, "Remix"))
    for words in ("blood on a boat", "more blood"):
        form = await refused_form(omar, await omar.submit(form, prompt=words, negative_prompt="fog"))
        assert (fields(form)["prompt"], fields(form)["negative_prompt"]) == (words, "fog")
    await omar.message_of(await omar.submit(form, prompt="a calm boat"))
    job = await job_of(served.store, "a calm boat")
    assert not job.origin.private
    assert job.origin.parent is not None
    assert job.origin.parent.message_id == int(message["id"])


async def test_words_come_back_while_the_queue_is_away(
    served: Served, mina: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = await mina.modal_of(await mina.use("rules add", name="Blades"))

    async def put(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("down")

    monkeypatch.setattr(type(served.store.prompt_rules), "put", put)
    monkeypatch.setattr("bot.front.services.request.PATIENCE_SECONDS", 0.1)
    back = await refused_form(mina, await mina.submit(form, name="Blades", terms="sword\ndagger", also=""))
    assert fields(back)["terms"] == "sword\ndagger"


async def test_a_form_from_before_a_restart_comes_back_as_text_in_as_many_messages_as_it_needs(
    served: Served, mina: Member
) -> None:
    form = await mina.modal_of(await mina.use("rules add", name="Blades"))
    terms = "\n".join(f"word{number:04d}" for number in range(440))
    also = "\n".join(["x" * 101, *(f"also{number:04d}" for number in range(400))])
    restart(served)
    submitted = await mina.submit(form, name="```Blades", terms=terms, also=also)
    assert "words or phrases" in await refusal(mina, submitted)

    async def all_there() -> bool:
        back = "".join(text_of(message) for message in await mina.messages() if ephemeral(message))
        return all(word in back for word in (*terms.split(), *also.split())) and back.count("```") % 2 == 0

    await until(all_there)


async def test_after_a_restart_try_again_says_that_the_words_are_gone(served: Served, ravi: Member) -> None:
    asked = await ravi.imagine(prompt="a boat", size="999x999")
    said = await ravi.message_of(asked, ephemeral)
    restart(served)
    told = await refusal(ravi, await ravi.press(said, "Try again"))
    assert re.search("no longer has what you typed", told)


async def test_a_refused_remix_of_a_private_result_stays_private(served: Served, ravi: Member) -> None:
    _, message = await finished(served, ravi, "a secret", private=True)
    await forbid(served.store, "blood")
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    form = await refused_form(ravi, await ravi.submit(form, prompt="blood"))
    assert ephemeral(await ravi.message_of(await ravi.submit(form, prompt="another secret")))
