"""Suggestions for the last keyword of a prompt."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.errors import ConfigurationError
from bot.domain.expansion import read_phrase
from bot.front.recipes.keywords import Keywords, as_prompt, keywords_of, read_keywords

ROWS = [
    ["long_hair", "0", "4000", "longhair,very_hairy"],
    ["long_sleeves", "0", "5000", ""],
    ["saber_(fate)", "4", "900", "artoria"],
    ["^_^", "0", "70"],
    ["긴_머리", "0", "7"],
    ["lonely"],
]
KEYWORDS = Keywords(ROWS)


@pytest.mark.parametrize(
    ("prompt", "completed"),
    [
        ("lon", ["long sleeves", "long hair", "lonely"]),
        ("LONG h", ["long hair"]),
        ("a cat, very", ["a cat, long hair"]),
        ("(long h", ["(long hair"]),
        ("{red hair, long_h", ["{red hair, long hair"]),
        (r"1girl,saber \(f", [r"1girl,saber \(fate\)"]),
        ("saber (", []),
        ("^", ["^_^"]),
        ("긴", ["긴 머리"]),
        ("", []),
        ("a cat, ", []),
        ("nothing like it", []),
    ],
)
def test_the_last_keyword_is_completed_and_what_stands_before_stays(
    prompt: str, completed: list[str]
) -> None:
    assert KEYWORDS.complete(prompt) == completed


def test_a_prompt_too_long_for_a_choice_is_not_suggested() -> None:
    assert KEYWORDS.complete("x" * 89 + ", long h") == ["x" * 89 + ", long hair"]
    assert KEYWORDS.complete("x" * 90 + ", long h") == []
    assert KEYWORDS.complete("x" * 2000 + ", lo") == []


def test_a_keyword_is_suggested_once() -> None:
    assert Keywords([["ab", "0", "1", "abc,abd"]]).complete("a") == ["ab"]


def test_each_alias_of_a_keyword_finds_it_and_may_have_spaces() -> None:
    keywords = Keywords([["long_hair", "0", "1", "longhair,very hairy"]])
    assert keywords.complete("very_h") == keywords.complete("very h") == ["long hair"]
    assert keywords.complete("hairy") == []


def test_a_name_with_a_control_character_is_suggested_without_it() -> None:
    assert Keywords([["red\x00cap", "0", "1"]]).complete("r") == ["red cap"]


def test_a_count_that_is_no_number_is_below_every_number() -> None:
    rows = [["ab", "0", "many"], ["ac", "0"], ["ad", "0", "1"], ["ae", "0", " 2 "], ["af", "0", "9" * 16]]
    assert Keywords(rows).complete("a") == ["ae", "ad", "ab", "ac", "af"]


@pytest.mark.parametrize("name", ["saber_(fate)", "a__b__c", "{x},y[z]", "(o)_(o)", "__hair__"])
def test_a_completed_keyword_is_only_text_for_the_prompts_grammar(name: str) -> None:
    phrase = read_phrase(as_prompt(name))
    assert phrase.count == 1
    assert [*phrase.wildcards] == []


def test_a_file_is_read_with_its_heading_quotes_and_bad_counts(tmp_path: Path) -> None:
    file = tmp_path / "tags.csv"
    file.write_text('\ufeffname,category,count,aliases\n1girl,0,9,"sole_female,1girls"\n\n1boy,0,many\n')
    keywords = read_keywords(str(file))
    assert len(keywords) == 2
    assert keywords.complete("sole") == ["1girl"]
    assert keywords.complete("1") == ["1girl", "1boy"]


def test_without_a_configured_file_there_are_no_keywords(tmp_path: Path) -> None:
    file = tmp_path / "tags.csv"
    file.write_text("1girl\n")
    found = keywords_of(str(file))
    assert found is not None
    assert found.complete("1") == ["1girl"]
    assert keywords_of("") is None


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("\n\n")
    (tmp_path / "latin.csv").write_bytes(b"caf\xe9,0,1\n")
    for name, words in (
        ("none.csv", "cannot be read"),
        ("empty.csv", "no keywords"),
        ("latin.csv", "no CSV"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            read_keywords(str(tmp_path / name))


def test_of_many_keywords_the_most_frequent_are_found(tmp_path: Path) -> None:
    file = tmp_path / "tags.csv"
    rows = [
        [f"tag_{number:06}", "0", str(number * 7919 % 20_003), f"other{number}"] for number in range(20_000)
    ]
    with file.open("w", newline="") as lines:
        csv.writer(lines).writerows(rows)
    keywords = read_keywords(str(file))
    rows.sort(key=lambda row: int(row[2]), reverse=True)
    for typed in ("t", "tag_01", "tag_019999", "other1"):
        found = [name for name, _, _, alias in rows if name.startswith(typed) or alias.startswith(typed)]
        assert keywords.beginning_with(typed, most=25) == found[:25], typed
    assert keywords.complete("a cat, tag 019999") == ["a cat, tag 019999"]


@given(st.text(max_size=120))
def test_any_text_gives_choices_that_discord_takes(prompt: str) -> None:
    choices = KEYWORDS.complete(prompt)
    assert len(choices) <= 25
    assert all(1 <= len(choice) <= 100 for choice in choices)
