"""The AutoMod rules that a front keeps are bounded by their size, and large ones push out no small ones."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from bot.front.services.judges import AutomodCache
from bot.moderation.automod import read_rules

SMALL, MOST = 1, 20_000


class Servers:
    """Discord, where server SMALL has one word and all others have long lists."""

    def __init__(self) -> None:
        self.read = Counter[int]()
        self.http = SimpleNamespace(get_auto_moderation_rules=self._rules)

    async def _rules(self, guild_id: int) -> list[dict[str, Any]]:
        self.read[guild_id] += 1
        return rules(["fog"] if guild_id == SMALL else long_list(guild_id))


def rules(keywords: list[str]) -> list[dict[str, Any]]:
    """Return what Discord answers for one rule that refuses these words."""
    return [
        {
            "enabled": True,
            "name": "Words",
            "trigger_type": 1,
            "event_type": 1,
            "actions": [{"type": 1}],
            "trigger_metadata": {"keyword_filter": keywords},
        }
    ]


def long_list(seed: int) -> list[str]:
    """Return 200 words of 21 letters."""
    return [
        f"{seed * 200 + number:021}".translate(str.maketrans("0123456789", "abcdefghij"))
        for number in range(200)
    ]


async def test_what_is_kept_of_all_servers_is_bounded_and_a_large_list_pushes_out_no_small_one() -> None:
    discord: Any = Servers()
    cache = AutomodCache(lambda: 1.0, most_instructions=MOST)
    [rule] = await cache.rules_of(discord, SMALL)
    assert rule.find("a fog bank")
    for guild_id in range(2, 22):
        [rule] = await cache.rules_of(discord, guild_id)
        assert rule.find(long_list(guild_id)[7])
    kept = [guild_id for guild_id in range(1, 22) if guild_id in cache]
    await cache.rules_of(discord, SMALL)
    assert discord.read[SMALL] == 1
    assert 1 < len(kept) < 21
    assert sum(sized(guild_id) for guild_id in kept) <= MOST


def sized(guild_id: int) -> int:
    """Return the size of a server's rules."""
    [rule] = read_rules(rules(["fog"] if guild_id == SMALL else long_list(guild_id)))
    rule.prepare()
    return rule.size


async def test_rules_that_are_too_large_to_be_kept_hold_and_are_read_for_each_request() -> None:
    discord: Any = Servers()
    cache = AutomodCache(lambda: 1.0, most_instructions=100)
    for _ in range(2):
        [rule] = await cache.rules_of(discord, 2)
        assert rule.find(long_list(2)[0])
    assert discord.read[2] == 2
