"""Which rule of a server refuses a prompt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.moderation.readings import read
from bot.moderation.rules import Judge
from bot.moderation.trials import EXAMPLES, tried
from bot.process.threads import Deadline
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.operations.gallery import Asked

HERE, THERE = 31, 32
BLOOD = PromptRule(name="No gore", terms=("blood", "gore"))
BRAND = PromptRule(name="Brands", terms=("Acme",), also=("logo", "poster"))
ORANGE = PromptRule(name="Fruit", action=Action.ALLOW, terms=("blood orange",))
ONLY_HERE = PromptRule(name="Here", terms=("clown",), channel_id=HERE)


def rule_of(*texts: str, rules: tuple[PromptRule, ...], channel_id: int | None = HERE) -> str | None:
    verdict = Judge(rules).verdict(texts, channel_ids=() if channel_id is None else (channel_id,))
    return None if verdict is None else verdict.rule.name


@pytest.mark.parametrize("prompt", ["a pool of blood", "b l o o d", "BLOOD!", "bl00d on snow", "gore, dark"])
def test_a_prompt_with_a_term_is_refused_by_its_rule(prompt: str) -> None:
    assert rule_of(prompt, rules=(BRAND, BLOOD)) == "No gore"


def test_the_negative_prompt_and_every_other_text_are_checked() -> None:
    assert rule_of("a castle", "", "blood", rules=(BLOOD,)) == "No gore"
    assert rule_of("a castle", "", rules=(BLOOD,)) is None


def test_a_combination_needs_a_term_of_both_lists_in_one_text() -> None:
    assert rule_of("an Acme logo", rules=(BRAND,)) == "Brands"
    assert rule_of("an Acme anvil", rules=(BRAND,)) is None
    assert rule_of("a logo", rules=(BRAND,)) is None
    assert rule_of("Acme", "a logo", rules=(BRAND,)) is None


def test_an_allowed_phrase_is_ignored_but_other_uses_of_its_words_are_not() -> None:
    assert rule_of("a Blood Orange on a plate", rules=(BLOOD, ORANGE)) is None
    assert rule_of("a blood orange in blood", rules=(BLOOD, ORANGE)) == "No gore"


def test_of_allowed_phrases_the_longest_counts() -> None:
    allowed = replace(ORANGE, terms=("blood", "blood orange"))
    fruit = PromptRule(name="No fruit", terms=("orange",))
    assert rule_of("a blood orange", rules=(fruit, allowed)) is None
    assert rule_of("an orange, blood orange", rules=(fruit, allowed)) == "No fruit"


def test_an_allowed_phrase_is_whole_words_and_no_pattern() -> None:
    assert rule_of("two blood oranges", rules=(BLOOD, ORANGE)) == "No gore"
    assert rule_of("a lifeblood orange", rules=(replace(BLOOD, terms=("lifeblood",)), ORANGE)) == "No gore"
    dots = replace(ORANGE, terms=("b....",))
    assert rule_of("blood", rules=(BLOOD, dots)) == "No gore"


def test_the_first_rule_that_refuses_the_first_text_is_named() -> None:
    other = replace(BLOOD, name="Also")
    assert rule_of("blood", rules=(BLOOD, other)) == "No gore"
    assert rule_of("blood", rules=(other, BLOOD)) == "Also"
    assert rule_of("a clown", "blood", rules=(BLOOD, ONLY_HERE)) == "Here"


def test_a_rule_of_one_channel_holds_nowhere_else() -> None:
    assert rule_of("a clown", rules=(ONLY_HERE,)) == "Here"
    assert rule_of("a clown", rules=(ONLY_HERE,), channel_id=THERE) is None
    assert rule_of("a clown", rules=(ONLY_HERE,), channel_id=None) is None


def test_a_rule_of_a_channel_holds_in_its_threads() -> None:
    thread = 33
    assert Judge([ONLY_HERE]).verdict(["a clown"], channel_ids=(thread, HERE)) is not None
    assert Judge([ONLY_HERE]).verdict(["a clown"], channel_ids=(thread, THERE)) is None


def test_a_rule_that_refuses_comes_before_one_that_holds() -> None:
    blades = PromptRule(name="Blades", action=Action.HOLD, terms=("sword",))
    assert rule_of("a sword", rules=(blades, BLOOD)) == "Blades"
    assert rule_of("a sword in blood", rules=(blades, BLOOD)) == "No gore"
    assert rule_of("a sword", "blood", rules=(blades, BLOOD)) == "No gore"
    assert rule_of("a castle", rules=(blades, BLOOD)) is None


@pytest.mark.parametrize(
    ("phrase", "prompt"),
    [("kız", "KIZ"), ("Iris", "ıris"), ("straſe", "STRASE"), ("µ", "Μ"), ("ẞ", "ß"), ("İ", "i")],
)
def test_an_allowed_phrase_is_found_in_any_letter_case(phrase: str, prompt: str) -> None:
    rules = (PromptRule(name="No", terms=("blood",)), replace(ORANGE, terms=(f"blood {phrase}",)))
    assert rule_of(f"a Blood {prompt}", rules=rules) is None


def test_known_readings_count_only_for_texts_from_which_nothing_is_allowed_away() -> None:
    text = "a blood orange"
    known = {text: read(text)}
    assert Judge([BLOOD]).verdict([text], channel_ids=(), known=known) is not None
    assert Judge([BLOOD, ORANGE]).verdict([text], channel_ids=(), known=known) is None


def test_the_verdict_names_the_terms_for_moderators() -> None:
    verdict = Judge([BLOOD]).verdict(["gore, blood, an Acme poster"], channel_ids=())
    assert verdict is not None
    assert set(verdict.found) == {"blood", "gore"}
    verdict = Judge([BRAND]).verdict(["an Acme poster"], channel_ids=())
    assert verdict is not None
    assert set(verdict.found) == {"Acme", "poster"}


@pytest.mark.parametrize("term", ["blood", "f**k", "피", "红色", "دم", "💉", "*art", "x", "dead body"])
def test_prepared_rules_have_the_same_verdicts(term: str) -> None:
    judge = Judge([replace(BLOOD, terms=(term,))])
    judge.prepare()
    assert judge.is_ready
    for text in (term, f"a castle, {term}", "a castle"):
        assert judge.verdict([text], channel_ids=()) == Judge(judge.rules).verdict([text], channel_ids=())


@given(st.text(max_size=300), st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5))
def test_any_text_and_any_terms_have_a_verdict(text: str, terms: list[str]) -> None:
    refusing = PromptRule(name="x", terms=tuple(terms))
    allowing = PromptRule(name="y", action=Action.ALLOW, terms=tuple(terms))
    Judge([refusing, allowing]).verdict([text], channel_ids=())
    Judge([refusing]).verdict([text], channel_ids=())


def test_a_rule_that_holds_needs_no_rule_that_refuses() -> None:
    assert rule_of("blood", rules=(replace(BLOOD, action=Action.HOLD),)) == "No gore"


def test_nothing_but_a_space_stands_for_an_allowed_phrase() -> None:
    assert rule_of("a blood orange", rules=(PromptRule(name="Letters", terms=("xx",)), ORANGE)) is None


def test_a_trial_ends_with_its_time_and_says_how_far_it_came() -> None:
    times = iter(range(99))
    asked = [
        Asked(prompt=f"a knife {number}", negative_prompt="", channel_ids=(HERE,), private=False)
        for number in range(50)
    ]
    deadline = Deadline(10.0, lambda: float(next(times)))
    trial = tried(PromptRule(name="knives", terms=("knife",)), [], asked, deadline)
    assert (trial.found, trial.count, trial.is_cut) == (10, 10, True)
    assert len(trial.examples) == EXAMPLES
