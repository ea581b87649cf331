"""The texts of a request that rules see."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bot.domain.errors import UserMistake
from bot.front.requests.words import check_texts
from bot.front.services.judges import Judging
from bot.front.services.request import Request
from bot.moderation import hard_rule
from bot.moderation.forms import forms_of

FILLING = "a,1.b;" * 330


@pytest.mark.parametrize("hidden", ["s.e.x with a 8 yo child", "s_e_x, ch1ld"])
async def test_a_long_negative_prompt_hides_no_part_of_a_prompt(hidden: str) -> None:
    services: Any = SimpleNamespace(hard_rule=hard_rule(), judging=Judging())
    interaction: Any = SimpleNamespace(guild_id=None, user=SimpleNamespace(id=1))
    in_a_message = Request(interaction=interaction, services=services)
    prompt = f"{FILLING[:960]} {hidden} {FILLING[:960]}"
    assert len(prompt) < 2000
    for texts in ([prompt], [prompt, FILLING], [FILLING, prompt]):
        with pytest.raises(UserMistake, match="rule_always"):
            await check_texts(in_a_message, texts)
    await check_texts(in_a_message, [FILLING, FILLING])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("bl&#111;od", ["blood"]),
        ("bl&amp;#111;od", ["blood"]),
        ("dead bo(d)y", ["dead body"]),
        ("de(ad:1) bo(dy:1)", ["dead body"]),
        ("(b: 1.0)(lo: 1.0)(od: 1.0)", ["blood"]),
        ("bl(: 1 )ood", ["blood"]),
        ("鲜(:1.0)血", ["鲜血"]),
        ("(bl&#111;od:1.2)", ["(blood:1.2)", "blood"]),
        ("blood BREAK orange", ["blood orange"]),
        ("a castle in the fog", []),
        ("  a castle  ", []),
    ],
)
def test_a_prompt_is_read_as_the_engine_reads_it(written: str, read: list[str]) -> None:
    assert forms_of([written]) == [written, *read]
