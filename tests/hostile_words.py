"""Words, rules, patterns, styles and lists that a server's members choose so that judging them costs much.

Each `Attack` has plain words too, of the same length, so that a test can compare costly words with as much
traffic that costs little.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from bot.sandbox.client import Member
from bot.sandbox.component_rules import walk
from bot.sandbox.server import Sandbox

WORDS = 11
WORD = "slopen"
TEXT_INPUT = 4
PLAIN = "the quiet lake, "  # no rule below has one of these words


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What one server may have, by `prepare`, and the words that one member then sends with /imagine.

    `style` is the style of the request. With `form` the prompt opens a form, which is sent too.
    """

    prepare: Callable[[Sandbox, Member], Awaitable[None]]
    words: Mapping[str, str]
    style: str = ""
    form: str = ""

    def plainly(self) -> Attack:
        """Return the attack with plain words of the same lengths and no style: nothing need be prepared."""
        plain = {name: (PLAIN * len(words))[: len(words)] for name, words in self.words.items()}
        return replace(self, words=plain, style="")

    async def send(self, member: Member) -> str:
        """Send the words, and return the id of the last interaction."""
        style = {"style": self.style} if self.style else {}
        prompt = self.form + self.words["prompt"]
        asked = await member.imagine(**{**self.words, "prompt": prompt}, **style)
        if not self.form:
            return asked
        form = await member.modal_of(asked)
        return await member.submit(form, **_values(form))


async def _terms(_sandbox: Sandbox, moderator: Member) -> None:
    """Phrases of words that are stretched forms of one another, and one word that is a form of all."""
    doubled = itertools.product((1, 2), repeat=len(WORD))
    forms = [
        "".join(letter * count for letter, count in zip(WORD, counts, strict=True)) for counts in doubled
    ]
    phrases = [" ".join(forms[(first + next_) % WORDS] for next_ in range(WORDS)) for first in range(WORDS)]
    await _filled(
        moderator, "rules add", name="Mine", terms="\n".join(each[:100] for each in phrases), also=""
    )


async def _patterns(sandbox: Sandbox, _moderator: Member) -> None:
    """Patterns of AutoMod that keep many places alive; half of them look cheap for the letters they show."""
    for number in range(3):
        shown, hidden = "(?:ab?){0,500}" * 12, r"@[!-&]" + "(?:[^z]b?){0,200}" * 4
        own = [f"{shown}{last}" for last in "01234"] + [f"{hidden}~{last}" for last in "56789"]
        sandbox.set_automod_rule(f"R{number}", patterns=own)


async def _expansion(_sandbox: Sandbox, moderator: Member) -> None:
    """A style of many places around many words from a list of long entries."""
    await _filled(moderator, "style add", name="Dark", prompt="{prompt}" * 125)
    await _filled(moderator, "wildcard add", name="a", entries="\u00e9" * 200)


async def _theme(_sandbox: Sandbox, moderator: Member) -> None:
    """A group session whose theme and style have many places, with required words."""
    await _filled(moderator, "style add", name="Deep", prompt="{prompt}" * 125)
    words = ", ".join(f"ab{number}" for number in range(10))
    form = await moderator.modal_of(await moderator.use("session open", where="here"))
    filled = {"theme": "{prompt}" * 37, "style": "Deep", "required": words, "minutes": "", "quota": "50"}
    await moderator.message_of(await moderator.submit(form, **filled))


STRETCHED = "".join(letter * 4 for letter in WORD)
HOSTILE: Mapping[str, Attack] = MappingProxyType(
    {
        "terms": Attack(prepare=_terms, words={"prompt": " ".join([STRETCHED] * WORDS)}),
        "patterns": Attack(
            prepare=_patterns,
            words={"prompt": ("@#" + "ab" * 998)[:2000], "negative_prompt": "a" * 1999},
        ),
        "expansion": Attack(prepare=_expansion, words={"prompt": "__a__" * 399}, style="Dark", form="{a,b}"),
        "theme": Attack(
            prepare=_theme,
            words={"prompt": ", ".join(["ab0 ab1 ab2 ab3 ab4 ab5 ab6 ab7 ab8"] * 60)[:2000]},
        ),
    }
)


async def _filled(member: Member, command: str, **values: Any) -> None:
    form = await member.modal_of(await member.use(command))
    await member.message_of(await member.submit(form, **values))


def _values(form: dict[str, Any]) -> dict[str, str]:
    inputs = (part for _, part in walk(form["components"]) if part.get("type") == TEXT_INPUT)
    return {part["custom_id"]: part.get("value", "") for part in inputs}
