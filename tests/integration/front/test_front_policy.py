"""/policy and /limits, and what policies refuse on every way to a picture."""

from __future__ import annotations

from typing import Any

import pytest
from front_tools import (
    ephemeral,
    fields,
    finished,
    give_role,
    job_of,
    queued,
    refusal,
    text_of,
)
from serving import Served

from bot.domain.channels import FLAGGED_KEYS
from bot.sandbox.client import Member
from bot.sandbox.community import CHANNELS, GUILD_ID, MODERATORS_ID, PEOPLE
from bot.sandbox.component_rules import RADIO_GROUP, STRING_SELECT, TEXT_INPUT
from bot.sandbox.permissions import Permission
from bot.sandbox.server import Sandbox
from bot.store.moderation.policies import PolicyScope
from bot.store.rows.audit import Act, By

MINA, RAVI, YUNA, OMAR, WEI = (person.id for person in PEOPLE)
ART = next(channel.id for channel in CHANNELS if channel.name == "art")
BY = By(actor_id=MINA, guild_id=GUILD_ID)


@pytest.fixture(autouse=True)
def artist(lenient: Sandbox) -> int:
    """A role that Ravi has; Omar may manage messages, not the server."""
    role = give_role(lenient, RAVI, Permission(0))
    give_role(lenient, OMAR, Permission.MANAGE_MESSAGES)
    return role


async def put(
    served: Served, scope: PolicyScope = PolicyScope.SERVER, owner: int = GUILD_ID, **values: Any
) -> None:
    await served.store.policies.put(scope, owner, values, BY)


async def fill(
    member: Member, what: str, /, *, role: int | None = None, where: str | None = None, **typed: str
) -> str:
    """Fill in the form of /policy set; return what is said."""
    options = {"role": role and str(role), "where": where}
    given = {name: value for name, value in options.items() if value is not None}
    form = await member.modal_of(await member.use("policy set", what=what, **given))
    return await refusal(member, await member.submit(form, **typed))


async def test_few_choices_of_a_policy_are_radio_buttons_and_many_a_menu(
    served: Served, mina: Member
) -> None:
    form = await mina.modal_of(await mina.use("policy set", what="more"))
    parts = [part["component"] for part in form["components"]]
    kinds = {part["custom_id"]: part["type"] for part in parts}
    menus = dict.fromkeys(FLAGGED_KEYS.values(), STRING_SELECT)
    assert kinds == {"weight": TEXT_INPUT, "language": RADIO_GROUP, **menus}
    assert "Language for all: 한국어" in await refusal(mina, await mina.submit(form, language="2"))
    form = await mina.modal_of(await mina.use("policy set", what="more"))
    language = next(each for part in form["components"] if (each := part["component"])["type"] == RADIO_GROUP)
    assert [option["label"] for option in language["options"] if option.get("default")] == ["한국어"]


async def test_a_policy_is_set_by_forms_shown_explained_and_reset(
    served: Served, mina: Member, ravi: Member, artist: int
) -> None:
    said = await fill(mina, "pictures", pixels="512x512", steps="20", variants="2")
    assert "Largest size: 512x512" in said
    assert "Most steps: 20" in said
    assert "Most steps: 60" in await fill(mina, "pictures", role=artist, steps="60")
    told = await fill(mina, "quotas", where="channel", pictures_per_hour="5")
    assert "Pictures an hour: 5" in told
    assert "the past hour or day counts already" in told
    assert "Private results: never" in await fill(mina, "who", private=["3"])
    assert "Unsafe pictures: 1 shown" in await fill(mina, "more", flagged=["1"], weight="0.5")
    form = await mina.modal_of(await mina.use("policy set", what="pictures", where="server"))
    assert "512x512" in str(form["components"])
    shown = await refusal(mina, await mina.use("policy show"))
    assert f"<@&{artist}>" in shown
    assert f"<#{ART}>" in shown
    why = await refusal(mina, await mina.use("policy why", member=str(RAVI)))
    assert f"Most steps: 60 — <@&{artist}>" in why
    assert "The whole server says 20, which does not count here." in why
    assert f"Pictures an hour: 5 — <#{ART}>" in why
    assert "Pictures an hour: 5 of 5 left." in why
    assert "Weight in the queue: 0.5 — The whole server" in why
    said = await refusal(mina, await mina.use("policy reset", role=str(artist)))
    assert "Most steps: 60" in said
    told = await refusal(mina, await mina.use("policy reset", role=str(artist)))
    assert told == "There is no such policy: /policy show shows the policies of this server."
    assert "leave one of the two out" in await refusal(
        mina, await mina.use("policy reset", role=str(artist), where="channel")
    )
    entries = await served.store.moderation.entries(GUILD_ID, act=Act.POLICY, limit=9)
    assert len(entries) == 6
    assert f"<@{MINA}> changed a policy: <@&{artist}>" in await refusal(mina, await mina.use("audit"))
    told = await fill(mina, "pictures", steps="many", models="nothing", pixels="big")
    assert "“nothing” is not offered here" in told
    refused = await mina.wait_for_message(lambda message: "Try again" in str(message["components"]))
    again = await mina.modal_of(await mina.press(refused, "Try again"))
    assert (fields(again)["steps"], fields(again)["models"]) == ("many", "nothing")


async def test_every_way_to_a_picture_keeps_within_the_policy(
    served: Served, mina: Member, ravi: Member, yuna: Member
) -> None:
    job, message = await finished(served, ravi, "a boat", steps=30)
    text = await yuna.say(
        "a red fish Negative prompt: fog Steps: 30, Sampler: Euler a, Seed: 77, Size: 512x512"
    )
    await put(served, steps=20, start_pictures=False)
    few = "At most 20 steps are allowed here: choose fewer."
    assert await refusal(ravi, await ravi.press(message, "Again")) == few
    assert "Pictures may not be made" in await refusal(mina, await mina.imagine(prompt="x", image=b"\x89PNG"))
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    assert "20" in await refusal(ravi, await ravi.submit(form, prompt="a tree", settings="steps 25"))
    assert "20" in await refusal(ravi, await ravi.imagine(prompt="a tree", steps=21))
    assert "20" in await refusal(ravi, await ravi.imagine(prompt="a {red, blue} tree", steps=25))
    form = await ravi.modal_of(await ravi.imagine(prompt="a {red, blue} tree"))
    assert "20" in await refusal(ravi, await ravi.submit(form, settings="steps 25"))
    form = await mina.modal_of(await mina.menu(text, "Use this recipe"))
    assert "20" in await refusal(mina, await mina.submit(form))
    await put(served, steps=None)
    assert "may not be made" in await refusal(ravi, await ravi.press(message, "Vary"))
    form = await ravi.modal_of(await ravi.menu(message, "Paint from this picture"))
    assert "may not be made" in await refusal(ravi, await ravi.submit(form, prompt="a tree"))
    form = await ravi.modal_of(await ravi.press(message, "More", values=["from"]))
    file = ("start.png", b"\x89PNG")
    assert "may not be made" in await refusal(ravi, await ravi.submit(form, prompt="a tree", image=file))
    await put(served, PolicyScope.CHANNEL, ART, paint=False)
    for interaction in (
        await ravi.press(message, "Again"),
        await ravi.imagine(prompt="a tree"),
        await ravi.press(message, "Remix"),
        await ravi.press(message, "More", values=["from"]),
        await ravi.imagine(prompt="a {red, blue} tree"),
        await ravi.menu(text, "Use this recipe"),
        await ravi.menu(message, "Paint from this picture"),
    ):
        assert (
            await refusal(ravi, interaction) == "You may not paint here: ask a moderator who may, and where."
        )
    assert await served.store.jobs.active() == []
    await ravi.message_of(await ravi.imagine(prompt="elsewhere", channel="general"), channel="general")
    assert (await job_of(served.store, "elsewhere")).id != job.id


async def test_options_left_out_keep_within_the_policy(served: Served, ravi: Member) -> None:
    offer = served.bot.services.offers[0]
    await put(served, steps=3, pixels=min(width * height for width, height in offer.sizes))
    await queued(ravi, "a small boat")
    job = await job_of(served.store, "a small boat")
    assert job.recipe.num_inference_steps == 3
    assert (job.recipe.width, job.recipe.height) == min(offer.sizes, key=lambda size: size[0] * size[1])


async def test_a_quota_is_counted_told_and_given_back(
    served: Served, ravi: Member, yuna: Member, artist: int
) -> None:
    await put(served, PolicyScope.ROLE, artist, pictures_per_hour=5, cool_down=0)
    await put(served, pictures_per_hour=1, pictures_per_day=9)
    first = await queued(ravi, "a boat", variants=4)
    assert "Pictures an hour: 1 of 5 left." in text_of(first)
    told = await refusal(ravi, await ravi.imagine(prompt="a tree", variants=2))
    assert told.startswith("Pictures an hour: you may ask for 5 here, 1 are left. Please ask again <t:")
    limits = await refusal(ravi, await ravi.use("limits"))
    assert "Pictures an hour: 1 of 5 left." in limits
    assert "Pictures a day: 5 of 9 left." in limits
    await served.store.jobs.cancel((await job_of(served.store, "a boat")).id, user_id=RAVI)
    await queued(ravi, "a tree", variants=2)
    assert "1장 중 1장 남음" in await refusal(yuna, await yuna.use("limits"))
    await put(served, cool_down=600)
    await put(served, PolicyScope.ROLE, artist, cool_down=None)
    told = await refusal(ravi, await ravi.imagine(prompt="a house"))
    assert told.startswith("Between two requests there must be 600 seconds here. Please ask again <t:")
    assert "Your next request is possible <t:" in await refusal(ravi, await ravi.use("limits"))


@pytest.mark.parametrize("policy", [{"paint": False}, {"steps": 1}], ids=["nobody-paints", "fewer-steps"])
async def test_a_private_result_is_published_only_within_the_policy_of_the_channel(
    served: Served, ravi: Member, policy: dict[str, Any]
) -> None:
    job, message = await finished(served, ravi, "a boat", private=True, steps=2)
    await put(served, **policy)
    told = await refusal(ravi, await ravi.press(message, "Publish"))
    assert told == "The policy here does not allow this picture: publish it in another channel."
    assert await served.store.jobs.copies(job.id) == []


async def test_private_results_weight_language_and_what_a_job_keeps(
    served: Served, ravi: Member, yuna: Member
) -> None:
    await put(served, private="always", weight=0.5, language="en", previews=False, review=True)
    message = await queued(ravi, "a boat")
    assert ephemeral(message)
    job = await job_of(served.store, "a boat")
    assert job.origin.private
    assert job.origin.policy == {"previews": False}
    await put(served, private="never")
    told = await refusal(ravi, await ravi.imagine(prompt="a tree", private=True))
    assert told == "Private results are not allowed here: ask for one that everyone sees."
    public = await queued(yuna, "a tree")
    assert not ephemeral(public)
    assert (await job_of(served.store, "a tree")).origin.locale == "en"
    assert "Queued" in text_of(public) or "painted" in text_of(public)


async def test_a_picture_of_a_grid_is_shown_privately_where_results_are_private(
    served: Served, ravi: Member
) -> None:
    _, message = await finished(served, ravi, "a boat", variants=2)
    await served.store.policies.put(PolicyScope.CHANNEL, ART, {"private": "always"}, BY)
    answer = await ravi.message_of(await ravi.press(message, "U1"))
    assert ephemeral(answer)
    assert "ask for a private one" not in text_of(answer)


async def test_the_policy_of_a_role_holds_before_the_gateway_has_sent_the_server(
    served: Served, mina: Member
) -> None:
    await served.store.policies.put(PolicyScope.ROLE, MODERATORS_ID, {"paint": False}, BY)
    served.bot._connection._guilds.pop(GUILD_ID)
    assert "You may not paint here" in await refusal(mina, await mina.imagine(prompt="a boat"))
