"""The work of the search, in steps of Python: linear in the text and in the terms, for any of both."""

import functools
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.moderation import Terms, hard_rule, read
from bot.moderation.readings import LONGEST_SENT
from bot.moderation.rules import Judge
from bot.store.moderation.prompt_rules import Action, PromptRule

HEADROOM = 500  # steps that no text and no list of terms changes much
TOO_MANY = 300_000


class TooManySteps(Exception):
    """The search was ended, since it would take for ever."""


def steps(work: Callable[[], object]) -> int:
    """Return how many lines of `bot.moderation` `work` executes; each turn of a loop counts."""
    count = 0

    def step(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        nonlocal count
        if event == "call":
            return step if "bot/moderation" in frame.f_code.co_filename else None
        count += 1
        if count > TOO_MANY:
            raise TooManySteps
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def search_steps(terms: Sequence[str], text: str) -> int:
    """Return the steps of a search whose tables are filled, by a search before it."""
    search, readings = Terms(terms), read(text)
    search.prepare()
    find = functools.partial(search.find_all, readings)
    find()
    return steps(find)


LATIN = ("a", "aa", "aaa", "run", "runs", "rruunn", "x", "b", "dead", "body", "69", "!?", "!!")
OTHERS = ("피", "섹스", "가", "ㅅㅔㄱㅅㅡ", "섹스를", "دم", "والدم", "血", "血腥", "血血", "色")
WORD = st.sampled_from((*LATIN, *OTHERS))
PHRASE = st.lists(WORD, min_size=1, max_size=8).map(" ".join)
STRETCHED = st.lists(st.integers(1, 3), min_size=3, max_size=3).map(
    lambda times: "".join(letter * n for letter, n in zip("abc", times, strict=True))
)
TERM = st.one_of(PHRASE, STRETCHED, st.lists(STRETCHED, min_size=2, max_size=6).map(" ".join))
TERMS = st.lists(TERM, min_size=1, max_size=12, unique=True)
TEXT = st.lists(st.one_of(TERM, STRETCHED), min_size=4, max_size=20)


@given(TERMS, TEXT, st.sampled_from([" ", "", "\n", ", "]))
def test_a_text_of_twice_the_length_takes_at_most_three_times_the_steps(
    terms: list[str], pieces: list[str], between: str
) -> None:
    text = between.join(pieces)
    once, twice = search_steps(terms, text), search_steps(terms, f"{text}{between}{text}")
    assert twice <= 3 * once + HEADROOM, (once, twice)


@given(TERMS, TEXT)
def test_phrases_of_twice_the_length_take_at_most_three_times_the_steps(
    terms: list[str], pieces: list[str]
) -> None:
    text = " ".join([*terms, *pieces]) * 2
    phrases = [f"{term} {term}" for term in terms]  # a single word is looked up, whatever the text
    longer = [f"{phrase} {phrase}" for phrase in phrases]
    once, twice = search_steps(phrases, text), search_steps(longer, text)
    assert twice <= 3 * once + HEADROOM, (once, twice)


def doublings(word: str) -> list[str]:
    """Return the forms of a word in which any letters are doubled, which all squeeze to the word."""
    chosen = itertools.product((1, 2), repeat=len(word))
    return ["".join(letter * n for letter, n in zip(word, times, strict=True)) for times in chosen]


def test_phrases_whose_words_are_stretched_forms_of_one_another_are_found_at_once() -> None:
    forms = doublings("slopen")
    terms = [
        " ".join(forms[(start * 7 + place * step) % len(forms)] for place in range(words))
        for words, step in ((11, 1), (12, 3), (13, 5), (14, 9))
        for start in range(100)
    ]
    text = " ".join(["sslloopppeeenn"] * 100)
    assert search_steps(terms, text) < 20_000
    assert Terms(terms).find_all(" ".join(["ssssllllooooppppeeeennnn"] * 14)) == terms


def test_a_refrain_of_forty_nine_words_is_found_at_once() -> None:
    terms = [" ".join(["a"] * 49), " ".join([*["a"] * 48, "aa"])]
    text = " ".join(["aaa"] * 49)
    assert search_steps(terms, text) < 5_000
    assert Terms(terms).find_all(text.replace("aaa", "aaaa")) == terms


@pytest.mark.parametrize("count", [10, 400])
def test_the_steps_of_a_text_with_a_term_in_each_word_do_not_depend_on_the_number_of_terms(
    count: int,
) -> None:
    korean = [chr(0xAC00 + 28 * place) + "나" for place in range(count)]
    chinese = [chr(0x4E00 + place) + "的" for place in range(count)]
    for own in (korean, chinese):
        assert search_steps(own, " ".join(own[:10])) < 1_500 + 10 * count


def test_a_text_of_allowed_phrases_takes_steps_by_its_length() -> None:
    phrases = [" ".join(["x"] * words) for words in range(1, 40)]
    rules = [
        PromptRule(name="no", terms=("blood",)),
        PromptRule(name="yes", action=Action.ALLOW, terms=tuple(phrases)),
    ]
    judge = Judge(rules)
    judge.prepare()
    verdict = functools.partial(judge.verdict, channel_ids=())
    verdict(["x"])
    once, twice = (steps(functools.partial(verdict, ["x " * words])) for words in (200, 400))
    assert twice <= 3 * once + HEADROOM


HOSTILE = {
    "letters apart": "a b ",
    "letters and signs": "a.b!",
    "letters and digits": "a1 1b ",
    "capital I": "Il ",
    "jamo": "ㅅㅔ ",
    "jamo with signs": "ㅅ.ㅔ.",
    "syllables apart": "가 ",
    "stretched syllables": "누우",
    "one noun in a long word": "아이누",
    "numerals": "十",
    "clauses of one character": "血，",
    "a term across words": "口交",
    "Arabic letters and digits": "وا1",
    "clitics": "وال ",
    "beginnings of joined words": "nudek ",
    "joined words": "nudekids",
    "ages": "15살",
    "entities": "&amp;",
    "unfinished entities": "&#",
    "overrides": "\u202ea\u202c",
    "open overrides": "\u202ea",
    "characters for several": "㎏",
    "emphasis": "((a:1.1) [b]",
}
LIST = [
    "blood",
    "nude",
    "섹스",
    "피",
    "血腥",
    "口交",
    "دم",
    "dead body",
    "f*ck",
    "*art",
    "x",
    "69",
    "💉",
    "19금",
]


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_rule_that_is_always_on_takes_few_steps_for_each_character(piece: str) -> None:
    always, readings = hard_rule(), read((piece * LONGEST_SENT)[:LONGEST_SENT])
    always.matches(readings)
    assert steps(lambda: always.matches(readings)) <= 30 * LONGEST_SENT


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_text_of_twice_the_length_is_read_and_searched_in_at_most_three_times_the_time(piece: str) -> None:
    search, always = Terms(LIST), hard_rule()
    search.prepare()

    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        times = []
        for _ in range(3):
            began = time.thread_time()
            readings = read(text)
            search.find_all(readings)
            always.matches(readings)
            times.append(time.thread_time() - began)
        return min(times)

    # Other work on the machine slows single measurements down; a cost that is not linear shows in each.
    for length in (LONGEST_SENT // 2, 8_000):
        assert any(seconds(2 * length) <= 3 * seconds(length) for _ in range(5)), length
