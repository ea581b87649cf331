"""Any text that people may type gives a picture or one clear sentence, and never a broken message.

The sandbox refuses every message that breaks Discord's limits, and its log must stay empty.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from front_tools import ephemeral, text_of
from results import shows_result
from serving import Served

from bot.sandbox.client import Member
from bot.sandbox.component_rules import TEXT_INPUT
from bot.sandbox.modal_rules import inputs

Message = dict[str, Any]
PIECES = (
    "a boat",
    "\N{RIGHT-TO-LEFT OVERRIDE}txet",
    "\N{RIGHT-TO-LEFT EMBEDDING}\N{LEFT-TO-RIGHT ISOLATE}",
    "قارب أحمر",
    "빨간 배",
    "红色的船",
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "z" + "\u0301\u0323" * 200,
    "\u200b\u2060\ufeff",
    "\x00\x07\x1b[31m",
    "```js\nalert(1)\n```",
    "`` ` ``",
    "||secret|| **bold** _it_ ~~no~~ # heading",
    "> quote\n- list\n1. number",
    "[link](https://example.org) <https://example.org>",
    "@everyone @here <@1300000000000000001> <#5> <@&7> </imagine:9> <:x:12> <t:1:R>",
    "{red} {blue",
    "__nowhere__ \\__ \\{",
    "(word:1.5) ((x)) [y] (unclosed:9",
    "\ud83c".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
    "\n\n\n",
    "%s {0} {prompt} %(x)s",
    "'; DROP TABLE jobs; --",
    "=" * 300,
    "𝕒𝕓𝕔 ａｂｃ",
    "﷽" * 40,
)
LONGEST = 6000


def texts(seed: int, count: int) -> list[str]:
    """Return `count` texts of random pieces, some of Discord's largest length."""
    chosen = random.Random(seed)
    made = [*PIECES, "x" * LONGEST, "word " * (LONGEST // 5), "\u0301" * LONGEST, "👍" * 1500]
    while len(made) < count:
        made.append(" ".join(chosen.sample(PIECES, chosen.randint(1, 5)))[:LONGEST])
    return made[:count]


async def answered(member: Member, interaction: str) -> Message:
    """The first message that answers an interaction with text."""
    return await member.message_of(interaction, lambda message: bool(text_of(message).strip()))


def is_clear(message: Message) -> bool:
    """Return whether a message is a private sentence or shows a job."""
    text = text_of(message)
    return ephemeral(message) or "Queued" in text or "Starts" in text or "Painting" in text


@pytest.mark.parametrize("option", ["prompt", "negative_prompt"])
async def test_any_prompt_is_queued_or_refused_in_one_sentence(
    served: Served, ravi: Member, option: str
) -> None:
    for text in texts(1, 45):
        options = {"prompt": "a boat", option: text[:2000]}
        answer = await answered(ravi, await ravi.imagine(**options))
        assert is_clear(answer), (text[:80], text_of(answer))
        for job in await served.store.jobs.active():
            await served.store.jobs.cancel(job.id, user_id=None)


async def remix_form(served: Served, member: Member) -> dict[str, Any]:
    """The form of Remix under a finished picture."""
    interaction = await member.imagine(prompt="a boat")
    await member.message_of(interaction)
    (job,) = await served.store.jobs.active()
    await served.paint(job.id)
    message = await member.message_of(interaction, shows_result)
    return await member.modal_of(await member.press(message, "Remix"))


async def test_any_values_of_a_form_are_queued_or_returned(served: Served, ravi: Member) -> None:
    form = await remix_form(served, ravi)
    names = [part["custom_id"] for _, part, _ in inputs(form) if part["type"] == TEXT_INPUT]
    lengths = {part["custom_id"]: part.get("max_length", 4000) for _, part, _ in inputs(form)}
    for number, text in enumerate(texts(2, 30)):
        typed = dict.fromkeys(names, "")
        typed["prompt"] = "a boat"
        name = names[number % len(names)]
        typed[name] = text[: lengths[name]]
        answer = await answered(ravi, await ravi.submit(form, **typed))
        assert is_clear(answer), (name, text[:80], text_of(answer))
        for job in await served.store.jobs.active():
            await served.store.jobs.cancel(job.id, user_id=None)


async def test_any_name_of_a_style_or_a_list_is_accepted_or_refused_in_one_sentence(
    served: Served, mina: Member
) -> None:
    for text in texts(3, 30):
        for command in ("style show", "style remove", "wildcard show", "wildcard remove"):
            answer = await answered(mina, await mina.use(command, name=text[:100]))
            assert ephemeral(answer)
    assert served.sandbox.violations == []


async def test_any_text_in_the_autocompleted_options_gets_an_answer(served: Served, ravi: Member) -> None:
    for text in texts(4, 30):
        for option in ("size", "style"):
            assert len(await ravi.autocomplete("imagine", option, text[:100], prompt="x")) <= 25
    assert served.sandbox.violations == []
