"""Rules on prompts and their rows in the audit log, on every database."""

from __future__ import annotations

import asyncio

from bot.store import Store
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.rows.audit import Act, By

HERE, THERE, MINA = 21, 22, 11
BY = By(actor_id=MINA, guild_id=HERE)
GORE = PromptRule(name="No gore", terms=("blood", "gore"))
BRANDS = PromptRule(name="Brands", terms=("Acme",), also=("logo",), channel_id=5, action=Action.REFUSE)


async def test_rules_are_kept_by_name_and_read_back_whole(store: Store) -> None:
    await store.prompt_rules.put(GORE, BY)
    await store.prompt_rules.put(BRANDS, BY)
    assert await store.prompt_rules.of(HERE) == [BRANDS, GORE]
    assert await store.prompt_rules.of(THERE) == []


async def test_a_rule_of_the_same_name_is_replaced_and_both_are_in_the_log(store: Store) -> None:
    await store.prompt_rules.put(GORE, BY)
    changed = PromptRule(name="NO  Gore", terms=("guts",))
    await store.prompt_rules.put(changed, BY)
    assert await store.prompt_rules.of(HERE) == [changed]
    newest, oldest = await store.moderation.entries(HERE, limit=9)
    assert newest.act is oldest.act is Act.RULE
    assert oldest.before is None
    assert newest.before is not None
    assert newest.after is not None
    assert (newest.before["terms"], newest.after["terms"]) == (["blood", "gore"], ["guts"])


async def test_a_removed_rule_is_gone_and_logged_and_an_unknown_one_leaves_no_row(store: Store) -> None:
    await store.prompt_rules.put(GORE, BY)
    assert await store.prompt_rules.remove("no gore", BY) == GORE
    assert await store.prompt_rules.remove("no gore", BY) is None
    assert await store.prompt_rules.of(HERE) == []
    assert len(await store.moderation.entries(HERE, limit=9)) == 2


async def test_two_moderators_at_once_leave_one_rule_and_two_rows(store: Store) -> None:
    others = PromptRule(name="No gore", terms=("guts",))
    await asyncio.gather(store.prompt_rules.put(GORE, BY), store.prompt_rules.put(others, BY))
    [rule] = await store.prompt_rules.of(HERE)
    assert rule in (GORE, others)
    assert len(await store.moderation.entries(HERE, limit=9)) == 2
