"""What a server does not allow: words, by rules that are tried before they are saved; blocked pictures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from bot.domain.hashes import name_of, named
from bot.domain.time_units import DAY_SECONDS
from bot.front.recipes.rule_words import MAX_NAME, MAX_TERM, MAX_TERMS, read_terms, rule_name
from bot.moderation.search_cost import check_cost
from bot.moderation.trials import Trial, tried
from bot.page.guard import form_of, number_of
from bot.page.house import House
from bot.page.wall import server_of
from bot.process.threads import Deadline, Threads
from bot.store.library.named import key_of
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.rows.audit import By

TRIED = 2000  # of the last requests of a server
SECONDS = 2.0  # of processor time, for one trial
SHOWN_BLOCKED = 60  # pictures
AT_ONCE, SHARE = 2, 1  # threads, and those of one server


class Rules:
    """The verbs of rules, as `/rules` has them."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._threads = Threads("rule trials", most=AT_ONCE, share=SHARE)

    async def put(self, form: Mapping[str, Any], by: By) -> PromptRule:
        """Store the rule of a form; raises UserMistake."""
        rule, rules = await self._read(form, by.guild_id)
        others = [each for each in rules if key_of(each.name) != key_of(rule.name)]
        await self._threads.run_for([by.guild_id], lambda: check_cost([*others, rule]))
        await self._house.store.prompt_rules.put(rule, by)
        return rule

    async def trial(self, form: Mapping[str, Any], guild_id: int) -> Trial:
        """Try the rule of a form on the prompts of the last day; raises UserMistake."""
        rule, rules = await self._read(form, guild_id)
        since = self._house.now - DAY_SECONDS
        asked = await self._house.store.gallery.asked(guild_id, since=since, limit=TRIED)

        def work() -> Trial:
            check_cost([rule])
            return tried(rule, rules, asked, Deadline(SECONDS, time.thread_time))

        return await self._threads.run_for([guild_id], work)

    async def _read(self, form: Mapping[str, Any], guild_id: int) -> tuple[PromptRule, list[PromptRule]]:
        """Return the rule of a form, and the rules that the server has."""
        action = str(form.get("action", ""))
        if action not in tuple(Action):
            raise web.HTTPBadRequest(text="This is no form of this page.")
        rule = PromptRule(
            name=rule_name(str(form.get("name", ""))),
            action=Action(action),
            terms=read_terms(str(form.get("terms", "")), least=1),
            also=() if action == Action.ALLOW else read_terms(str(form.get("also", "")), least=0),
            channel_id=number_of(str(form.get("channel", ""))) or None,
        )
        return rule, await self._house.store.prompt_rules.of(guild_id)


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the rules of a server, and the one whose name the address has."""
    guild_id = await server_of(house, query)
    rules = await house.store.prompt_rules.of(guild_id) if guild_id else []
    chosen = next((each for each in rules if key_of(each.name) == key_of(query.get("name", ""))), None)
    return {
        "rules": rules,
        "guild_id": guild_id,
        "form": {} if chosen is None else fields_of(chosen),
        "trial": None,
        "mistake": None,
        "saved": query.get("saved", "")[:MAX_NAME],
        "most": (MAX_NAME, MAX_TERMS * (MAX_TERM + 1)),
    }


def fields_of(rule: PromptRule) -> dict[str, str]:
    """Return a rule as the fields of its form."""
    return {
        "name": rule.name,
        "action": rule.action.value,
        "terms": "\n".join(rule.terms),
        "also": "\n".join(rule.also),
        "channel": str(rule.channel_id or ""),
    }


async def form_fields(request: web.Request) -> dict[str, str]:
    """Return the fields of the form of a rule."""
    form = await form_of(request)
    return {name: str(form.get(name, "")) for name in ("name", "action", "terms", "also", "channel")}


async def read_blocked(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the newest blocked pictures of a server, each with its name and whether a file is kept."""
    guild_id = await server_of(house, query)
    found = await house.store.known.blocked(guild_id) if guild_id else []
    kept = await house.store.known.kept(guild_id or 0, [each.hash for each in found[:SHOWN_BLOCKED]])
    return {
        "blocked": [(each, name_of(each.hash), each.hash in kept) for each in found[:SHOWN_BLOCKED]],
        "more": len(found) > SHOWN_BLOCKED,
        "most": SHOWN_BLOCKED,
        "guild_id": guild_id,
    }


async def file_of(house: House, guild_id: int, name: str) -> str | None:
    """Return the file of a blocked picture of a server; None where it is not blocked or no file is kept."""
    number = named(name)
    if number is None or all(each.hash != number for each in await house.store.known.blocked(guild_id)):
        return None
    return (await house.store.known.kept(guild_id, [number])).get(number)


async def unblock(house: House, name: str, by: By) -> bool:
    """Unblock the picture of this name; False where the server has not blocked it."""
    number = named(name)
    return number is not None and await house.store.known.unblock(number, by)
