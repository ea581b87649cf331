"""A prompt with more words than there is room for, from /imagine to what its message says of it."""

from __future__ import annotations

from typing import Any

from results import shows_result
from serving import Served

from bot.config import ModelConfig
from bot.sandbox.client import Member
from bot.sandbox.component_rules import walk

ROOM = ModelConfig().prompt_chunks * 75
TIMEOUT = 60.0


async def painted(member: Member, **options: Any) -> str:
    """What the finished message of a request says."""

    def finished(message: dict[str, Any]) -> bool:
        return shows_result(message)

    message = await member.message_of(await member.imagine(**options), finished, timeout=TIMEOUT)
    return "\n".join(part["content"] for _, part in walk(message["components"]) if "content" in part)


async def test_the_cut_end_of_a_prompt_is_shown_in_the_persons_language(
    painting: Served, yuna: Member
) -> None:
    said = await painted(yuna, prompt="red " * ROOM + "(blue:1.2) star", negative_prompt="[white] circle")

    assert f"프롬프트에서 앞의 {ROOM}토큰만 반영되었습니다. 빠진 부분: “(blue:1.2) star”" in said
    assert "제외 프롬프트에서" not in said


async def test_a_prompt_that_fits_has_no_note(painting: Served, mina: Member) -> None:
    said = await painted(mina, prompt="(red circle:1.3), blue star")

    assert "token" not in said
    assert "Left out" not in said
