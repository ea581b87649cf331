"""Judging and expanding texts is bounded, whatever the rules and texts are: it asks often for the time."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.errors import UserMistake
from bot.domain.expansion import read_phrase
from bot.front.requests.library import written_out
from bot.front.requests.words import RULES, RulesHere, judgement
from bot.front.services.judges import MOST_RULES, Judging
from bot.front.services.request import Request
from bot.moderation import hard_rule
from bot.moderation.automod import AutomodRule
from bot.moderation.limits import Sender
from bot.moderation.rules import Judge
from bot.process.threads import Check, TooLong
from bot.store.moderation.prompt_rules import Action, PromptRule

MINE, OTHER = Sender(user_id=1, guild_id=10), Sender(user_id=2, guild_id=20)
MOST_CALLS = 100_000
"""Of functions, Python's and C's, between two questions whether the time is over."""
TERMS = {
    "stretched": tuple("slopen" + "n" * number for number in range(60)),
    "phrases": tuple(" ".join(["a"] * length) for length in range(2, 50)),
    "parts": tuple(f"*{letter}{number}*" for letter in "abc" for number in range(100)),
    "hangul": tuple(chr(0xAC00 + number) + "나" for number in range(300)),
    "han": tuple("一" + chr(0x4E00 + number) for number in range(300)),
}
TEXTS = {
    "letters": "a " * 1000,
    "long word": "sslloopen" * 222,
    "signs": "a*b.c!" * 333,
    "hangul": "가나 " * 666,
    "han": "一丁七万" * 500,
    "emphasis": "((a:1.1) [b]" * 166,
}


def automod() -> tuple[AutomodRule, ...]:
    """As many keywords, allowed phrases and patterns as Discord lets a server have."""
    words = tuple(f"*{'a' * 40}{number}*" for number in range(1000))
    allowed = tuple("*" + "a" * length for length in range(1, 100))
    rules = [
        AutomodRule(name=f"R{number}", keywords=words, allowed=allowed, patterns=("a.{90}z",) * 10)
        for number in range(6)
    ]
    for rule in rules:
        rule.prepare()
    return tuple(rules)


AUTOMOD = automod()


def rules_of(terms: tuple[str, ...]) -> RulesHere:
    judge = Judge([PromptRule(name="Mine", action=Action.REFUSE, terms=terms, also=("zebra",))])
    judge.prepare()
    return RulesHere(always=hard_rule(), judge=judge, automod=AUTOMOD)


def most_calls(work: Callable[[Check], object]) -> int:
    """Return the most calls that `work` makes between two calls of its argument."""
    counts = [0]

    def counted(_frame: FrameType, event: str, _argument: Any) -> None:
        counts[-1] += event in ("call", "c_call")

    def check(_piece: str) -> None:
        counts.append(0)

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work(check)
    finally:
        sys.setprofile(before)
    return max(counts)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("text", TEXTS)
def test_judging_asks_often_whether_its_time_is_over(terms: str, text: str) -> None:
    rules, texts = rules_of(TERMS[terms]), [TEXTS[text][:2000], TEXTS[text][:1999]]
    assert most_calls(partial(judgement, texts=texts, rules=rules)) < MOST_CALLS


def test_the_entries_of_a_list_are_judged_one_after_the_other() -> None:
    entries = [f"{number} a word" for number in range(500)]
    judge = partial(judgement, texts=entries, rules=rules_of(TERMS["parts"]), together=False)
    assert most_calls(judge) < MOST_CALLS


@given(
    st.lists(st.text(max_size=60), max_size=4),
    st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=6),
    st.integers(1, 60),
)
def test_judging_ends_where_its_time_is_over(texts: list[str], terms: list[str], last: int) -> None:
    rules, pieces = rules_of(tuple(terms)), list[str]()

    def check(piece: str) -> None:
        pieces.append(piece)
        if len(pieces) == last:
            raise TooLong(piece)

    try:
        judgement(check, texts, rules)
    except TooLong:
        assert len(pieces) == last
    assert len(pieces) <= last
    assert {*pieces} <= {"", RULES, *(rule.name for rule in AUTOMOD)}


async def test_the_rule_that_took_too_long_is_told_to_the_person_and_to_moderators() -> None:
    judging = Judging(seconds=5.0, clock=count().__next__)

    def work(check: Check, rule: str) -> None:
        while True:
            check(rule)

    with pytest.raises(UserMistake, match="judging_rule") as refused:
        await judging.run(MINE, partial(work, rule="Mine"))
    assert refused.value.details == {"rule": "Mine"}
    with pytest.raises(UserMistake, match="judging_long"):
        await judging.run(MINE, partial(work, rule=""))
    assert judging.slow_rules(10) == ("Mine",)
    for number in range(20):
        with pytest.raises(UserMistake, match="judging_rule"):
            await judging.run(OTHER, partial(work, rule=f"R{number}"))
    assert len(judging.slow_rules(20)) == MOST_RULES
    assert judging.slow_rules(10) == ("Mine",)


async def test_one_server_leaves_a_thread_to_the_others() -> None:
    judging, hung = Judging(), threading.Event()
    mine = [asyncio.create_task(judging.run(MINE, lambda _check: hung.wait())) for _ in range(9)]
    await asyncio.sleep(0)
    assert await judging.run(OTHER, lambda _check: "judged") == "judged"
    person = Sender(user_id=3, guild_id=None)
    assert await judging.run(person, lambda _check: "judged") == "judged"
    hung.set()
    assert await asyncio.gather(*mine) == [True] * 9


async def test_the_prompts_of_one_form_are_written_one_after_the_other_off_the_loop() -> None:
    loop, written = threading.get_ident(), list[int]()
    services: Any = SimpleNamespace(judging=Judging(clock=lambda: float(len(written)), seconds=3.5))
    interaction: Any = SimpleNamespace(guild_id=None, user=SimpleNamespace(id=1))
    request = Request(interaction=interaction, services=services)

    def finish(text: str) -> str:
        written.append(threading.get_ident())
        return text.upper()

    few = read_phrase("{a,b,c}")
    assert await written_out(request, few, finish, seed=1) == ["A", "B", "C"]
    assert loop not in written
    written.clear()
    with pytest.raises(UserMistake, match="judging_long"):
        await written_out(request, read_phrase("{a,b}" * 6), finish, seed=1)
    assert len(written) == 4
