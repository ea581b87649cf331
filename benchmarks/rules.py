"""What the rules add to a request: with the real store, on SQLite and on PostgreSQL.

    python benchmarks/rules.py [FOLDER] [--rounds 200] [--only sqlite postgresql]

A request is what /imagine does with the database: its job is stored. With rules, it is first asked whether
the person or the server is blocked, and whether the rule that is always on, the server's rules or its AutoMod
rules refuse the words. The front has the compiled rules in memory, and reads whether they are still current.
Nothing is refused, so every rule is tried to its end. Requests without, with few and with the most rules take
turns, so that all three meet the same machine; times are on the clock, medians with the 99th percentile.
"processor" is the processor time of this process for the checks alone, which other work on the machine
changes less.

Few: 5 rules of 40 terms, one rule that allows two phrases, one AutoMod rule of 50 keywords. Most: 50 rules of
60 terms, and six AutoMod rules of 1,000 keywords and ten patterns. Prompts are the innocent ones of
tests/unit/moderation/lists in four languages, of about 200 characters.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from conditions import Stolen, print_conditions
from moderation import prompts
from percentiles import percentile
from store_servers import postgresql

from bot.domain.jobs import Origin, Recipe
from bot.front.requests.words import check_words
from bot.front.services.judges import AutomodCache, Judging
from bot.front.services.request import Interaction, Request
from bot.front.services.standing import Operator, ServerCache
from bot.moderation.terms import hard_rule
from bot.store import Store
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.rows.audit import By
from sdjax_engine.request import Sampler

CHARACTERS = 200
WITHOUT, FEW, MOST = 1, 2, 3  # the servers
MODERATOR = 9
RULES = {FEW: (5, 40), MOST: (50, 60)}
KEYWORDS = {FEW: (1, 50, 0), MOST: (6, 1000, 10)}


def words(count: int, chance: random.Random) -> list[str]:
    """Return made-up words that no prompt has."""
    made: list[str] = []
    while len(made) < count:
        made.append("".join(chance.choices("bdfgklmnprstaeiou", k=9)) + "x")
    return made[:count]


async def fill(store: Store) -> None:
    """Give two of the servers their rules."""
    chance = random.Random(3)
    for guild_id, (count, size) in RULES.items():
        by = By(actor_id=MODERATOR, guild_id=guild_id)
        for number in range(count):
            terms = tuple(words(size, chance))
            await store.prompt_rules.put(PromptRule(name=f"rule {number}", terms=terms), by)
        allowed = PromptRule(name="allowed", action=Action.ALLOW, terms=("blood orange", "dead sea"))
        if guild_id != MOST:
            await store.prompt_rules.put(allowed, by)


def automod_payload(guild_id: int) -> list[dict[str, Any]]:
    """Return AutoMod rules as Discord sends them."""
    chance = random.Random(4)
    rules, size, patterns = KEYWORDS[guild_id]
    facts = {
        "allow_list": ["blood orange"],
        "regex_patterns": [rf"(?:{word}|\d{{9}})z\b" for word in words(patterns, chance)],
    }
    return [
        {
            "name": f"AutoMod {number}",
            "event_type": 1,
            "trigger_type": 1,
            "actions": [{"type": 1}],
            "enabled": True,
            "trigger_metadata": {**facts, "keyword_filter": [f"{word}*" for word in words(size, chance)]},
        }
        for number in range(rules)
    ]


class Discord:
    """Answers what the cache of AutoMod rules asks."""

    @property
    def http(self) -> Discord:
        return self

    async def get_auto_moderation_rules(self, guild_id: int) -> list[dict[str, Any]]:
        return automod_payload(guild_id)


def interaction_in(guild_id: int, store: Store, automod: AutomodCache) -> Interaction:
    """Return what the checks read of an interaction."""
    client = Discord()
    threads = {"judging": Judging(), "servers": ServerCache(), "hard_rule": hard_rule()}
    services = SimpleNamespace(store=store, automod=automod, operator=Operator(), **threads)
    client.services = services  # type: ignore[attr-defined]
    fields: dict[str, Any] = {
        "client": client,
        "guild_id": guild_id,
        "channel_id": 31,
        "channel": None,
    }
    fields |= {"user": SimpleNamespace(id=11, roles=()), "is_guild_integration": lambda: True}
    fields |= {"app_permissions": SimpleNamespace(manage_guild=True)}
    return cast("Interaction", SimpleNamespace(**fields))


def recipe(prompt: str) -> Recipe:
    return Recipe(
        prompt=prompt,
        seed=7,
        num_inference_steps=20,
        guidance_scale=5.0,
        sampler=Sampler.DDIM,
        width=512,
        height=512,
        model="demo",
    )


def origin(number: int, guild_id: int) -> Origin:
    return Origin(
        interaction_id=number,
        interaction_token="a-token",
        token_expires_at=2e9,
        application_id=5,
        user_id=100 + number % 500,
        guild_id=guild_id,
        channel_id=31,
        locale="en-US",
        private=False,
    )


async def request(
    interaction: Interaction, asked: Recipe, place: Origin, *, checked: bool
) -> tuple[float, float]:
    """Return the milliseconds of one request, and the processor's milliseconds for its checks."""
    store: Store = interaction.client.services.store
    begun, used = time.perf_counter(), time.process_time()
    if checked:
        made = Request.of(interaction)
        (await made.standing()).check_paints()
        await check_words(made, asked)
    used = time.process_time() - used
    await store.jobs.enqueue(asked, place)
    return 1e3 * (time.perf_counter() - begun), 1e3 * used


def texts(count: int) -> list[str]:
    """Return prompts of about 200 characters."""
    chance = random.Random(5)
    innocent = [prompt for _, own in prompts().values() for prompt in own]
    found: list[str] = []
    while len(found) < count:
        text = ", ".join(chance.sample(innocent, 12))[:CHARACTERS]
        if not hard_rule().matches(text):  # innocent prompts side by side may not be innocent
            found.append(text)
    return found


async def measure(url: str, rounds: int) -> None:
    """Print the times of requests by turns."""
    store = await Store.open(url)
    try:
        await fill(store)
        automod = AutomodCache(time.monotonic)
        places = {guild_id: interaction_in(guild_id, store, automod) for guild_id in (WITHOUT, FEW, MOST)}
        times: dict[int, list[tuple[float, float]]] = {guild_id: [] for guild_id in places}
        numbers = itertools.count(1)
        for round_number, prompt in enumerate(texts(rounds + 20)):
            for guild_id, interaction in places.items():
                taken = await request(
                    interaction, recipe(prompt), origin(next(numbers), guild_id), checked=guild_id != WITHOUT
                )
                if round_number >= 20:  # the first compile the rules and open the connections
                    times[guild_id].append(taken)
        print_times(times)
    finally:
        await store.close()


def print_times(times: dict[int, list[tuple[float, float]]]) -> None:
    """Print each median, and what the rules add."""
    clock = {guild_id: [taken for taken, _ in each] for guild_id, each in times.items()}
    bare = statistics.median(clock[WITHOUT])
    for guild_id, name in ((WITHOUT, "without rules"), (FEW, "few rules"), (MOST, "most rules")):
        own = statistics.median(clock[guild_id])
        added = statistics.median(
            one - other for one, other in zip(clock[guild_id], clock[WITHOUT], strict=True)
        )
        used = statistics.median(used for _, used in times[guild_id])
        print(
            f"{name:14} {own:7.2f} ms, p99 {percentile(clock[guild_id], 99):7.2f}; "
            f"added {added:6.2f} ms; ratio {own / bare:5.2f}; processor {used:5.2f} ms"
        )


def main() -> None:
    """Print the conditions, then the figures of each database."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=["sqlite", "postgresql"])
    options = parser.parse_args()
    print_conditions("sqlalchemy", "aiosqlite", "asyncpg", "google-re2")
    stolen = Stolen()
    if "sqlite" in options.only:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            print("\nSQLite")
            asyncio.run(measure(f"sqlite+aiosqlite:///{folder}/rules.sqlite3", options.rounds))
    if "postgresql" in options.only:
        with postgresql(options.folder) as server:
            print("\nPostgreSQL")
            server.execute("CREATE DATABASE rules")
            asyncio.run(measure(server.url("rules"), options.rounds))
    print(f"stolen by other machines: {stolen.share():.1%}")


if __name__ == "__main__":
    main()
