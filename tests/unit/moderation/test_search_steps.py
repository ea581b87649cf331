"""The work of the search, in steps of Python: linear in the text and in the terms, for any of both."""

import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.moderation import Terms, read
from bot.moderation.rules import Judge
from bot.store.prompt_rules import Action, PromptRule

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
    search, readings = Terms(terms), read(text)
    search.prepare()
    _ = readings.sequences, readings.alone, readings.clauses, readings.syllables, readings.masked
    return steps(lambda: search.find_all(readings))


WORDS = [
    *("a", "aa", "aaa", "run", "runs", "rruunn", "x", "b", "dead", "body"),
    *(
        "피",
        "섹스",
        "가",
        "ㅅㅔㄱㅅㅡ",
        "섹스를",
        "دم",
        "والدم",
        "血",
        "血腥",
        "血血",
        "色",
        "69",
        "!?",
        "!!",
    ),
]
WORD = st.sampled_from(WORDS)
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
    longer = [f"{term} {term}" for term in terms]
    once, twice = search_steps(terms, text), search_steps(longer, text)
    assert twice <= 3 * once + HEADROOM, (once, twice)


def doublings(word: str) -> list[str]:
    """Return the forms of a word in which any letters are doubled, which all squeeze to the word."""
    chosen = itertools.product((1, 2), repeat=len(word))
    return ["".join(letter * n for letter, n in zip(word, times, strict=True)) for times in chosen]


@pytest.mark.parametrize("words", [11, 12, 14])
def test_phrases_whose_words_are_stretched_forms_of_one_another_are_found_at_once(words: int) -> None:
    forms = doublings("slopen")[:words]
    terms = [" ".join(forms[(start + place) % words] for place in range(words)) for start in range(words)]
    text = " ".join(["sslloopppeeenn" * 1] * words)
    assert search_steps(terms, text) < 20_000
    assert Terms(terms).find_all(" ".join(["ssssllllooooppppeeeennnn"] * words)) == terms


def test_a_refrain_of_forty_nine_words_is_found_at_once() -> None:
    terms = [" ".join(["a"] * 49), " ".join([*["a"] * 48, "aa"])]
    text = " ".join(["aaa"] * 49)
    assert search_steps(terms, text) < 5_000
    assert Terms(terms).find_all(text) == terms


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
    judge.verdict(["x"], channel_ids=())
    verdict = functools.partial(judge.verdict, channel_ids=())
    once, twice = (steps(functools.partial(verdict, ["x " * words])) for words in (200, 400))
    assert twice <= 3 * once + HEADROOM
