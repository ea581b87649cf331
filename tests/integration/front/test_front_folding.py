"""A long prompt from /imagine to its message, Info and Remix, as members of a server see them."""

from __future__ import annotations

from front_tools import finished, text_of
from serving import Served

from bot.sandbox.client import Member
from bot.sandbox.modal_rules import inputs

PROMPT = ("a red boat on a very long river, " * 61)[:2000].strip(", ")
NEGATIVE = ("no fog, " * 250)[:2000].strip(", ")


async def test_a_long_prompt_is_folded_in_its_message_and_complete_in_info_and_remix(
    served: Served, ravi: Member, omar: Member
) -> None:
    _, message = await finished(served, ravi, PROMPT, negative_prompt=NEGATIVE)
    lines = text_of(message).strip().splitlines()
    assert lines[0].endswith(", a red…**")
    assert len(lines[0]) <= 240 + len("****")
    assert lines[-1] == "-# The whole prompt: More, then Info."
    assert lines[-2].startswith("-# without: no fog, ")
    assert lines[-2].endswith("…")

    interaction = await omar.press(message, "More", values=["info"])
    first = text_of(await omar.message_of(interaction))
    assert f"```\n{PROMPT}\n```" in first
    further = await omar.wait_for_message(lambda seen: "Negative prompt: " in text_of(seen))
    assert f"```\nNegative prompt: {NEGATIVE}\nSteps: " in text_of(further)

    form = await omar.modal_of(await omar.press(message, "Remix"))
    filled = {part["custom_id"]: part.get("value", "") for _, part, _ in inputs(form)}
    assert (filled["prompt"], filled["negative_prompt"]) == (PROMPT, NEGATIVE)
    assert PROMPT[:900] in str(message["components"])  # the alternative text
