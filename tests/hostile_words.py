"""Words, rules, patterns, styles and lists that a server's members choose so that judging them costs much.

Each function makes what one server may have, and returns how one member sends a costly request.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from bot.sandbox.client import Member
from bot.sandbox.component_rules import walk
from bot.sandbox.server import Sandbox

Send = Callable[[], Awaitable[object]]
Make = Callable[[Sandbox, Member, Member], Awaitable[Send]]
"""From the sandbox, a moderator and a member to the member's request."""

WORDS = 11
WORD = "slopen"
TEXT_INPUT = 4


async def terms(_sandbox: Sandbox, moderator: Member, member: Member) -> Send:
    """Phrases of words that are stretched forms of one another, and one word that is a form of all."""
    doubled = itertools.product((1, 2), repeat=len(WORD))
    forms = [
        "".join(letter * count for letter, count in zip(WORD, counts, strict=True)) for counts in doubled
    ]
    phrases = [" ".join(forms[(first + next_) % WORDS] for next_ in range(WORDS)) for first in range(WORDS)]
    await _filled(
        moderator, "rules add", name="Mine", terms="\n".join(each[:100] for each in phrases), also=""
    )
    stretched = "".join(letter * 4 for letter in WORD)
    return lambda: member.imagine(prompt=" ".join([stretched] * WORDS))


async def patterns(sandbox: Sandbox, _moderator: Member, member: Member) -> Send:
    """Patterns of AutoMod that keep many places alive; half of them look cheap for the letters they show."""
    for number in range(3):
        shown, hidden = "(?:ab?){0,500}" * 12, r"@[!-&]" + "(?:[^z]b?){0,200}" * 4
        own = [f"{shown}{last}" for last in "01234"] + [f"{hidden}~{last}" for last in "56789"]
        sandbox.set_automod_rule(f"R{number}", patterns=own)
    text = "@#" + "ab" * 998
    return lambda: member.imagine(prompt=text[:2000], negative_prompt="a" * 1999)


async def expansion(_sandbox: Sandbox, moderator: Member, member: Member) -> Send:
    """A style of many places around many words from a list of long entries."""
    await _filled(moderator, "style add", name="Dark", prompt="{prompt}" * 125)
    await _filled(moderator, "wildcard add", name="a", entries="\u00e9" * 200)

    async def send() -> None:
        form = await member.modal_of(await member.imagine(prompt="{a,b}" + "__a__" * 399, style="Dark"))
        await member.submit(form, **_values(form))

    return send


async def theme(_sandbox: Sandbox, moderator: Member, member: Member) -> Send:
    """A group session whose theme and style have many places, with required words."""
    await _filled(moderator, "style add", name="Deep", prompt="{prompt}" * 125)
    words = ", ".join(f"ab{number}" for number in range(10))
    form = await moderator.modal_of(await moderator.use("session open", where="here"))
    filled = {"theme": "{prompt}" * 37, "style": "Deep", "required": words, "minutes": "", "quota": "50"}
    await moderator.message_of(await moderator.submit(form, **filled))
    prompt = ", ".join(["ab0 ab1 ab2 ab3 ab4 ab5 ab6 ab7 ab8"] * 60)[:2000]
    return lambda: member.imagine(prompt=prompt)


HOSTILE: Mapping[str, Make] = MappingProxyType(
    {"terms": terms, "patterns": patterns, "expansion": expansion, "theme": theme}
)


async def _filled(member: Member, command: str, **values: Any) -> None:
    form = await member.modal_of(await member.use(command))
    await member.message_of(await member.submit(form, **values))


def _values(form: dict[str, Any]) -> dict[str, str]:
    inputs = (part for _, part in walk(form["components"]) if part.get("type") == TEXT_INPUT)
    return {part["custom_id"]: part.get("value", "") for part in inputs}
