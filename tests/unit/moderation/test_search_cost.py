"""What a server's rules may cost: counted from their terms, and measured on texts of their terms."""

import itertools
import random
import time

import pytest
from test_search_steps import doublings

from bot.domain.errors import UserMistake
from bot.moderation.readings import LONGEST_SENT
from bot.moderation.rules import Judge
from bot.moderation.search_cost import (
    MOST_COUNTED,
    MOST_MEASURED,
    check_cost,
    counted,
    measured,
    worst_texts,
)
from bot.store.moderation.prompt_rules import Action, PromptRule


def rules(terms: list[str], size: int = 500) -> list[PromptRule]:
    """Return rules with these terms, as many in each as a rule may have."""
    parts = (terms[start : start + size] for start in range(0, len(terms), size))
    return [PromptRule(name=str(number), terms=tuple(part)) for number, part in enumerate(parts)]


def words(count: int, letters: str, length: int) -> list[str]:
    chance = random.Random(count)
    return ["".join(chance.choices(letters, k=length)) for _ in range(count)]


REFRAINS = [" ".join(words) for words in itertools.product(("a", "aa"), repeat=8)]
COSTLY = {
    "stretched forms of one word": doublings("slopenbrk"),
    "stretched Arabic forms of one word": doublings("قتلسمبر"),
    "a short word in each length": [
        "a" * first + "b" * last for first in range(1, 14) for last in range(1, 14)
    ],
    "very many long phrases": [f"{one} {other}" for one, other in itertools.product(REFRAINS, repeat=2)][
        :16_000
    ],
}
CHEAP = {
    "nothing": [],
    "ordinary words": ["blood", "gore", "nude", "피", "血腥", "دم", "dead body", "69", "💉", "f*ck", "*art"],
    "5,000 words": words(5_000, "abcdefghijklmnopqrstuvwxyz", 7),
    "5,000 Korean words": words(5_000, "가나다라마바사아자차카타파하", 3),
    "5,000 Chinese words": words(5_000, "".join(map(chr, range(0x4E00, 0x5600))), 2),
    "2,000 phrases": [
        f"{a} {b}" for a, b in zip(words(2_000, "abcdefgh", 5), words(2_000, "ijklmnop", 5), strict=True)
    ],
    "words whose plurals and double letters meet": [
        "as",
        "ass",
        "asses",
        "bas",
        "bass",
        "base",
        "bases",
        "basses",
    ],
    "refrains": ["run run run", "runs runs runs", "a a a a a a", "aa aa aa aa"],
}


@pytest.mark.parametrize("terms", COSTLY.values(), ids=COSTLY.keys())
def test_terms_whose_search_takes_too_long_for_some_text_are_refused(terms: list[str]) -> None:
    with pytest.raises(UserMistake, match="rule_slow"):
        check_cost(rules(terms), clock=lambda: 0.0)


@pytest.mark.parametrize("terms", CHEAP.values(), ids=CHEAP.keys())
def test_terms_that_people_write_are_not_refused(terms: list[str]) -> None:
    check_cost(rules(terms), clock=lambda: 0.0)


def test_the_terms_of_all_rules_count_together() -> None:
    first, second = doublings("slopenb")[:100], doublings("slopenb")[100:]
    check_cost(rules(first), clock=lambda: 0.0)
    with pytest.raises(UserMistake):
        check_cost(
            [*rules(first), PromptRule(name="more", terms=("x",), also=tuple(second))], clock=lambda: 0.0
        )


def test_allowed_phrases_are_not_searched_for_as_terms() -> None:
    allowing = PromptRule(name="fine", action=Action.ALLOW, terms=tuple(doublings("slopenb")))
    assert counted(Judge([allowing])) == 0


def test_a_search_that_takes_too_long_by_the_clock_is_refused_too() -> None:
    ticks = itertools.count(step=MOST_MEASURED / 1000 + 0.001)
    with pytest.raises(UserMistake, match="rule_slow"):
        check_cost(rules(["blood"]), clock=lambda: next(ticks))


def test_the_count_is_no_less_than_the_time_of_the_worst_text() -> None:
    chance = random.Random(1)
    forms = doublings("slopenb")[:120]
    stretched = ["".join(letter * chance.randint(2, 4) for letter in "slopenb") for _ in range(100)]
    pairs = ["".join(pair) for pair in itertools.permutations("bcdfghjklmnpqrtvw", 2)]
    phrases = [" ".join(chance.choices(pairs, k=12)) for _ in range(8_000)]
    for terms, text in ((forms, " ".join(stretched)), (phrases, " ".join(pairs) * 3)):
        judge = Judge(rules(terms))
        judge.prepare()
        assert counted(judge) <= MOST_COUNTED
        # Three times as much, since other work on the machine slows a thread down.
        assert measured_on(judge, text[:LONGEST_SENT]) <= 3 * counted(judge)


def measured_on(judge: Judge, text: str) -> float:
    """Return the milliseconds of a search in a text, the least of five."""
    times = []
    for _ in range(5):
        began = time.thread_time()
        judge.verdict([text], channel_ids=())
        times.append(1000 * (time.thread_time() - began))
    return min(times)


def test_the_worst_texts_consist_of_the_terms_and_are_as_long_as_a_prompt() -> None:
    texts = list(worst_texts(["blood", "a b"]))
    assert {len(text) for text in texts} == {2000}
    assert texts[0].startswith("blood a b")
    assert texts[1].startswith("blooda bblooda b")


def test_rules_without_terms_to_find_take_no_time() -> None:
    assert measured(Judge([]), clock=lambda: 0.0) == 0
    check_cost([])
