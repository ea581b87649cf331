"""/rules, and the checks of prompts, styles, lists, recipes and the buttons of earlier pictures."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import PIL.Image
from front_tools import fields, finished, job_of, refusal, refused_form, text_of
from serving import Served

from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.store.rows.audit import Act, By

REFUSED = "The rule “No gore” of this server does not allow this: change the words and ask again."


async def add(member: Member, name: str, terms: str, *, also: str = "", **options: Any) -> str:
    """Add a rule by its form; return what is said."""
    form = await member.modal_of(await member.use("rules add", name=name, **options))
    values = {"name": name, "terms": terms} | ({"also": also} if also else {})
    return await refusal(member, await member.submit(form, **values))


async def test_a_rules_refusal_names_the_rule_and_not_its_terms(
    served: Served, mina: Member, ravi: Member
) -> None:
    assert await add(mina, "No gore", "blood\ngore") == "Saved: the rule No gore."
    assert await refusal(ravi, await ravi.imagine(prompt="b l o o d on snow")) == REFUSED
    assert await refusal(ravi, await ravi.imagine(prompt="snow", negative_prompt="gore")) == REFUSED
    assert await served.store.jobs.active() == []
    await ravi.message_of(await ravi.imagine(prompt="snow on a hill"))
    [entry] = await served.store.moderation.entries(GUILD_ID, limit=9)
    assert entry.act is Act.RULE


async def test_a_rule_that_would_take_too_long_to_check_is_not_stored(served: Served, mina: Member) -> None:
    alike = "\n".join(
        "".join(letters) for letters in product(*((letter, letter * 2) for letter in "slopenbr"))
    )
    said = await add(mina, "Slopes", alike)
    assert said.startswith("With these words, checking a prompt would take too long: leave out words that")
    assert await served.store.prompt_rules.of(GUILD_ID) == []
    assert await add(mina, "Slopes", "slope\nslopes") == "Saved: the rule Slopes."


async def test_long_words_that_are_refused_are_given_back(served: Served, mina: Member, ravi: Member) -> None:
    await add(mina, "No gore", "blood")
    words = "a very long description of a castle in the fog above the sea, with a banner red as blood"
    interaction = await ravi.imagine(prompt=words, negative_prompt="people")
    held = fields(await refused_form(ravi, interaction))
    assert (held["prompt"], held["negative_prompt"]) == (words, "people")
    assert "appeal:refused" in str(await ravi.message_of(interaction, lambda seen: REFUSED in text_of(seen)))


async def test_every_way_to_a_picture_checks_the_rules(served: Served, mina: Member, ravi: Member) -> None:
    _, message = await finished(served, ravi, "a pool of blood")
    form = await mina.modal_of(await mina.use("style add", name="Dark"))
    await refusal(mina, await mina.submit(form, name="Dark", prompt="{prompt}, gore"))
    form = await mina.modal_of(await mina.use("wildcard add", name="colour"))
    await refusal(mina, await mina.submit(form, name="colour", entries="blood red"))
    await add(mina, "No gore", "blood\ngore")
    for label in ("Again", "Vary"):
        assert await refusal(ravi, await ravi.press(message, label)) == REFUSED
    form = await ravi.modal_of(await ravi.press(message, "Remix"))
    assert REFUSED in await refusal(
        ravi, await ravi.submit(form, prompt="gore", negative_prompt="", settings="")
    )
    assert await refusal(ravi, await ravi.imagine(prompt="a dog", style="Dark")) == REFUSED
    assert await refusal(ravi, await ravi.imagine(prompt="a __colour__ dog")) == REFUSED
    pasted = "a pool of gore Steps: 5, Seed: 1"
    assert await refusal(ravi, await ravi.imagine(prompt="-", recipe=pasted)) == REFUSED
    assert await served.store.jobs.active() == []


async def test_a_style_or_a_list_that_the_rules_refuse_is_not_saved(served: Served, mina: Member) -> None:
    await add(mina, "No gore", "blood")
    form = await mina.modal_of(await mina.use("style add", name="Bleed"))
    assert await refusal(mina, await mina.submit(form, name="Bleed", prompt="{prompt}, blood")) == REFUSED
    form = await mina.modal_of(await mina.use("wildcard add", name="colour"))
    assert await refusal(mina, await mina.submit(form, name="colour", entries="red\nblood red")) == REFUSED
    form = await mina.modal_of(await mina.use("wildcard add", name="figures"))
    said = await refusal(mina, await mina.submit(form, name="figures", entries="a child\na nude statue"))
    assert said == "Saved: write \\_\\_figures\\_\\_ in a prompt."  # no prompt gets both entries
    await served.store.wildcards.remove("figures", By(actor_id=1, guild_id=GUILD_ID))
    assert await served.store.styles.of(GUILD_ID) == await served.store.wildcards.of(GUILD_ID) == []


async def test_a_private_result_is_published_only_within_the_rules_of_the_channel(
    served: Served, mina: Member, ravi: Member
) -> None:
    job, message = await finished(served, ravi, "a pool of blood", private=True)
    await add(mina, "No gore", "blood")
    told = await refusal(ravi, await ravi.press(message, "Publish"))
    assert (
        told == "The rule “No gore” of this server does not allow this here: publish it in another channel."
    )
    assert await served.store.jobs.copies(job.id) == []


async def test_a_refused_request_with_a_start_picture_offers_no_appeal(
    served: Served, mina: Member, ravi: Member
) -> None:
    await add(mina, "No gore", "blood")

    async def buttons_of(**options: Any) -> str:
        interaction = await ravi.imagine(prompt="blood", **options)
        assert (await refusal(ravi, interaction)).startswith(REFUSED)
        return str((await ravi.message_of(interaction, lambda seen: REFUSED in text_of(seen)))["components"])

    file = io.BytesIO()
    PIL.Image.new("RGB", (32, 32)).save(file, format="PNG")
    assert "appeal:refused" in await buttons_of()
    assert "appeal:refused" not in await buttons_of(image=("start.png", file.getvalue()))
    assert await served.store.jobs.active() == []


async def test_one_rule_is_always_on_in_direct_messages_too(served: Served, ravi: Member) -> None:
    said = "Sexual content with minors is never painted here: change the words."
    hidden = "n&#97;ked 8 year old"
    assert await refusal(ravi, await ravi.imagine(prompt=hidden)) == said
    assert await refusal(ravi, await ravi.imagine(prompt="a nude child")) == said
    await ravi.imagine(prompt="a nude 12 year old", channel="dm")
    await ravi.wait_for_message(lambda message: said in text_of(message), channel="dm")
    await ravi.message_of(await ravi.imagine(prompt="a child with a red kite"))
    [job] = await served.store.jobs.active()
    assert job.recipe.prompt == "a child with a red kite"


async def test_words_that_a_prompt_writes_together_are_judged_as_the_model_reads_them(
    served: Served, mina: Member, ravi: Member
) -> None:
    for name, entry in (("a", "nude"), ("b", "kid")):
        form = await mina.modal_of(await mina.use("wildcard add", name=name))
        await mina.message_of(await mina.submit(form, name=name, entries=entry))
    said = "Sexual content with minors is never painted here: change the words."
    for prompt in ("#nudekid", "(nude)(kid)", "nu(de)(ki)d", "__a____b__", "__b____a__", "누드아이"):
        assert await refusal(ravi, await ravi.imagine(prompt=prompt)) == said, prompt
    assert await served.store.jobs.active() == []


async def test_rules_of_a_channel_combinations_and_allowed_phrases(
    served: Served, mina: Member, ravi: Member
) -> None:
    await add(mina, "No gore", "blood", scope="channel")
    await add(mina, "Brands", "Acme", also="logo")
    await add(mina, "Fruit", "blood orange", action="allow")
    await ravi.message_of(await ravi.imagine(prompt="a blood orange"))
    await ravi.message_of(await ravi.imagine(prompt="an Acme anvil"))
    assert "Brands" in await refusal(ravi, await ravi.imagine(prompt="an Acme logo"))
    assert await refusal(ravi, await ravi.imagine(prompt="blood")) == REFUSED
    await ravi.message_of(await ravi.imagine(prompt="blood elsewhere", channel="general"), channel="general")
    await job_of(served.store, "blood elsewhere")


async def test_moderators_can_show_try_and_remove_rules(served: Served, mina: Member, ravi: Member) -> None:
    await add(mina, "No gore", "blood\ngore")
    assert "No gore" in await refusal(mina, await mina.use("rules show"))
    assert "blood, gore" in await refusal(mina, await mina.use("rules show", name="no gore"))
    tried = await refusal(mina, await mina.use("rules try", prompt="g0re"))
    assert tried == "The rule No gore refuses this prompt for gore."
    assert await refusal(mina, await mina.use("rules try", prompt="a hill")) == (
        "No rule here refuses or holds this prompt."
    )
    choices = await mina.autocomplete("rules remove", "name", "no")
    assert [choice["value"] for choice in choices] == ["No gore"]
    assert await refusal(mina, await mina.use("rules remove", name="No gore")) == "Removed: the rule No gore."
    assert "no rule “No gore”" in await refusal(mina, await mina.use("rules remove", name="No gore"))
    await ravi.message_of(await ravi.imagine(prompt="blood"))
