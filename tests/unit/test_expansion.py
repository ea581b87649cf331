"""Alternatives and wildcards in a prompt."""

from __future__ import annotations

import pytest
from counted_calls import peak_below
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.errors import UserMistake
from bot.domain.expansion import MAX_DEPTH, chosen, in_places, is_wildcard_name, read_phrase
from bot.front.recipes.options import may_expand
from sdjax_engine.errors import InvalidRequest


def marked(name: str, number: int) -> str:
    return f"<{name}{number}>"


def texts(prompt: str) -> list[str]:
    phrase = read_phrase(prompt)
    return [phrase.text(index, marked) for index in range(phrase.count)]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a bird", ["a bird"]),
        ("{red, blue} bird", ["red bird", "blue bird"]),
        ("{red,blue} {cat , dog}", ["red cat", "red dog", "blue cat", "blue dog"]),
        ("a {, big} bird", ["a  bird", "a big bird"]),
        ("{red, {dark, light} blue} bird", ["red bird", "dark blue bird", "light blue bird"]),
        ("{a, b, {c, d}}{, !}", ["a", "a!", "b", "b!", "c", "c!", "d", "d!"]),
        ("{빨간, 파란} 새", ["빨간 새", "파란 새"]),
    ],
)
def test_each_combination_is_one_prompt_and_the_last_group_changes_fastest(
    prompt: str, expected: list[str]
) -> None:
    assert texts(prompt) == expected


@pytest.mark.parametrize(
    "prompt",
    [
        "a {masterpiece} bird",
        "{",
        "}",
        "a } b {",
        ":{ , }:"[:3],
        "{unclosed, bird",
        "red, blue",
        "a_b, _c_",
        "____",
    ],
)
def test_braces_without_a_partner_or_a_comma_are_text(prompt: str) -> None:
    assert texts(prompt) == [prompt]


def test_a_group_behind_an_unclosed_brace_is_still_a_group() -> None:
    assert texts("{a, {b, c}") == ["{a, b", "{a, c"]
    assert texts("{a {b} c, d}") == ["a {b} c", "d"]


def test_escapes_are_the_character_itself() -> None:
    assert texts(r"\{red, blue\} bird") == ["{red, blue} bird"]
    assert texts(r"{one\, two, three}") == ["one, two", "three"]
    assert texts(r"\_\_colour__ \__x__") == ["__colour__ __x__"]


def test_emphasis_is_kept_unchanged() -> None:
    prompt = r"saber \(fate\), (word:1.3), [less], back\\slash"
    assert texts(prompt) == [prompt]
    assert texts(r"{saber \(fate\), (hat:1.2)}") == [r"saber \(fate\)", "(hat:1.2)"]


def test_wildcards_are_numbered_by_their_place() -> None:
    assert texts("__a__ {x, __b-c__} __색__") == ["<a0> x <색2>", "<a0> <b-c1> <색2>"]
    assert [*read_phrase("__a__ {x, __b__} __a__").wildcards] == ["a", "b", "a"]


def test_combinations_are_counted_without_writing_them_out() -> None:
    assert read_phrase("{a, b}" * 300).count == 2**300


@pytest.mark.parametrize("prompt", ["{a,b}" + "__a__" * 399, "{a,{b," + "__a__" * 398 + "}}"])
def test_a_text_that_would_become_far_too_long_is_not_written_out(prompt: str) -> None:
    phrase, entry = read_phrase(prompt), "x" * 5_000
    with pytest.raises(InvalidRequest) as refused, peak_below(1 << 20):
        phrase.text(phrase.count - 1, lambda _name, _number: entry)
    assert refused.value.problem == "long_prompt"
    assert refused.value.details["characters"] >= 398 * len(entry)


def test_a_text_with_many_places_is_measured_before_it_is_written() -> None:
    assert in_places("a {prompt}, {prompt}", "b") == "a b, b"
    words = "x" * 50_000
    with pytest.raises(InvalidRequest) as refused, peak_below(1 << 20):
        in_places("{prompt}" * 125, words)
    assert refused.value.details["characters"] == 125 * len(words)


def test_nesting_is_bounded() -> None:
    assert read_phrase("{a," * MAX_DEPTH + "}" * MAX_DEPTH).count == MAX_DEPTH + 1
    with pytest.raises(UserMistake, match="expansion_deep"):
        read_phrase("{a," * (MAX_DEPTH + 1) + "}" * (MAX_DEPTH + 1))
    assert texts("{" * 50) == ["{" * 50]


@pytest.mark.parametrize("piece", ["{", "{,", "}", "__", "_a", "\\", "{a,b}", "__a__", ",", "{}"])
def test_a_long_text_is_read_in_linear_time(piece: str) -> None:
    assert read_phrase(piece * 50_000).count >= 1  # quadratic time would take minutes


@given(st.text(alphabet="ab ,{}_\\(:1)", max_size=60) | st.text(max_size=60))
def test_any_text_has_a_meaning(prompt: str) -> None:
    phrase = read_phrase(prompt)
    assert phrase.count >= 1
    last = phrase.text(phrase.count - 1, marked)
    assert len(last) <= len(prompt) + 2 * prompt.count("__")
    if not may_expand(prompt):
        assert texts(prompt) == [prompt]


@given(st.text(alphabet="ab ,{}_(:1)", max_size=60))
def test_every_text_without_backslashes_can_be_escaped(words: str) -> None:
    escaped = "".join(f"\\{letter}" if letter in "{},_" else letter for letter in words)
    assert texts(escaped) == [words]


def test_a_seed_always_chooses_the_same_entry_and_seeds_differ() -> None:
    entries = ["red", "green", "blue"]
    assert [chosen(entries, seed=7, number=number) for number in range(6)] == [
        "blue", "blue", "green", "red", "green", "red",
    ]  # fmt: skip
    found = [chosen(entries, seed=seed, number=0) for seed in range(3000)]
    assert all(900 < found.count(entry) < 1100 for entry in entries)


@pytest.mark.parametrize("name", ["colour", "색", "a-b", "a_b", "x" * 40, "नेपाली"])
def test_valid_names_are_accepted(name: str) -> None:
    assert is_wildcard_name(name)
    assert [*read_phrase(f"a __{name}__ b").wildcards] == [name]


@pytest.mark.parametrize("name", ["", "two words", "a__b", "_a", "a_", "x" * 41, "a,b", "{a}", "a\\"])
def test_invalid_names_are_refused(name: str) -> None:
    assert not is_wildcard_name(name)
