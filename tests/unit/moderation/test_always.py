"""The rule that is always on, and two lists of which a text must hold one each."""

import itertools

import pytest
from test_lists import read as read_list

from bot.moderation import BothOf, hard_rule, read
from bot.moderation.tables import read_lists

TEXTS = read_list("always")


@pytest.mark.parametrize("text", TEXTS["broken"])
def test_sexual_content_with_minors_breaks_the_rule(text: str) -> None:
    assert hard_rule().matches(text)
    assert hard_rule().matches(read(text))


@pytest.mark.parametrize("text", TEXTS["kept"])
def test_one_of_both_alone_or_in_a_harmless_phrase_keeps_the_rule(text: str) -> None:
    assert not hard_rule().matches(text)


@pytest.mark.parametrize("form", ["{} year old", "{}yo", "{}살", "{}岁", "{} سنة"])
def test_every_age_of_a_minor_counts_in_every_language_and_no_other(form: str) -> None:
    assert [age for age in range(1, 18) if not hard_rule().matches(f"nude {form.format(age)}")] == []
    grown = (18, 19, 21, 35, 70, 115)
    assert [age for age in grown if hard_rule().matches(f"nude {form.format(age)}")] == []


def test_a_harmless_phrase_does_not_cover_another_use() -> None:
    assert hard_rule().matches("sex education, naked child")
    assert hard_rule().matches("baby blue, nude baby")


@pytest.mark.parametrize("language", ["en", "ko", "zh", "ar"])
def test_a_word_for_a_minor_and_a_sexual_one_written_together_break_the_rule(language: str) -> None:
    lists = read_lists("hard_rule.toml")
    minors, sexual = (
        [word for word in lists[kind][language] if word.isalpha()] for kind in ("minors", "sexual")
    )
    orders = ((minors, sexual), (sexual, minors))
    pairs = [one + other for ones, others in orders for one, other in itertools.product(ones, others)]
    assert [pair for pair in pairs if not hard_rule().matches(pair)] == []


@pytest.mark.parametrize("language", ["en", "ko", "ar"])
def test_harmless_words_and_compounds_keep_the_rule(language: str) -> None:
    words = read_list("joined")[language].split()
    broken = [word for word in words if hard_rule().matches(word)]
    assert len(broken) <= 0.01 * len(words), broken


def test_both_lists_must_match_also_where_they_are_hidden() -> None:
    both = BothOf(["gun", "knife"], ["school"])
    assert both.matches("a g.u.n in a sch00l")
    assert not both.matches("a gun in a field")
    assert not both.matches("a pen in a school")


def test_both_are_found_in_one_word_with_joints_between_them() -> None:
    both = BothOf(["gun"], ["school", "child", "15yo"], joints=["in", "the"])
    together = ["gunschool", "schoolguns", "guninschool", "guninthechildren", "g u n s c h o o l", "gun15yo"]
    assert [text for text in (*together, "guuuunschool") if not both.matches(text)] == []
    others = ["gunatschool", "gunin", "inschoolgun", "gunschoolteacher", "begunschool", "gun115yo"]
    assert [text for text in others if both.matches(text)] == []
    assert not BothOf(["gun"], ["school"]).matches("guninschool")


def test_a_word_of_very_many_letters_is_joined_only_where_few_are_left_without_repetitions() -> None:
    both = BothOf(["gun"], ["schol"])
    assert both.matches("gu" + "n" * 60 + "schol")
    assert not both.matches("gunschol" * 6)


def test_a_harmless_phrase_counts_for_neither_list() -> None:
    both = BothOf(["gun"], ["school"], harmless=["water gun"])
    assert not both.matches("a Water-Gun in a school")
    assert both.matches("a water gun and a gun in a school")
    assert not BothOf(["xx"], ["kid"], harmless=["xx"]).matches("xx kid")
