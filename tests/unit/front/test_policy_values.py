"""The values of policies as they are typed and read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config import Config
from bot.domain.errors import UserMistake
from bot.front.moderators.policy_values import (
    FLAGGED,
    GROUPS,
    LEVELS,
    choices_of,
    is_chosen,
    key_name,
    read_value,
    typed_text,
    value_text,
)
from bot.moderation.generosity import NO_LIMIT
from bot.moderation.policy import KEYS
from bot.texts.catalogue import LANGUAGES, Texts

TEXTS = Texts.for_locale("en")
OFFERS = [Config().models[0].offer]
MODEL = OFFERS[0].model


def read(key: str, text: str) -> Any:
    return read_value(key, text, OFFERS, TEXTS)


def test_every_key_is_in_one_form_with_at_most_five_parts() -> None:
    assert sorted(key for keys in GROUPS.values() for key in keys) == sorted(KEYS)
    assert all(len(keys) <= 5 for keys in GROUPS.values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_fit_a_form_and_choices_a_menu(language: str) -> None:
    texts = Texts(language)
    for key in KEYS:
        assert 0 < len(key_name(key, texts)) <= 45
        if is_chosen(key):
            names = [name for name, _ in choices_of(key, texts)]
            assert len(names) == len(set(names)) <= 25
            assert all(0 < len(name) <= 100 for name in names)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("steps", "20", 20),
        ("steps", "", None),
        ("steps", "-", NO_LIMIT),
        ("pixels", "512 x 768", 512 * 768),
        ("pixels", "512×512", 512 * 512),
        ("pixels", "300000", 300_000),
        ("cost_per_day", "2,5", 2.5),
        ("cool_down", "-", 0),
        ("weight", "0.5", 0.5),
        ("models", f" {MODEL.upper()} ,", (MODEL,)),
        ("models", "*", ("*",)),
        ("loras", "-", ()),
        ("paint", "2", False),
        ("paint", "0", None),
        ("paint", "99", None),
        ("language", "2", "ko"),
    ],
)
def test_what_is_typed_or_chosen_is_read(key: str, text: str, value: Any) -> None:
    assert read(key, text) == value


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("steps", "many", "policy_number"),
        ("steps", "0", "policy_number"),
        ("steps", "2.5", "policy_number"),
        ("steps", "nan", "policy_number"),
        ("steps", "inf", "policy_number"),
        ("steps", "1e9", "policy_number"),
        ("cool_down", "86401", "policy_number"),
        ("weight", "0", "policy_number"),
        ("pixels", "0x5", "policy_pixels"),
        ("pixels", "wide", "policy_pixels"),
        ("models", "nothing", "policy_unknown"),
        ("models", ",", "policy_unknown"),
        ("loras", "`@everyone`", "policy_unknown"),
        ("loras", ", ,", "policy_unknown"),
    ],
)
def test_what_cannot_be_is_refused(key: str, text: str, said: str) -> None:
    with pytest.raises(UserMistake) as refused:
        read(key, text)
    assert refused.value.message_id == said


@given(st.text(max_size=40), st.sampled_from(KEYS))
def test_any_text_is_read_or_refused_with_a_sentence(text: str, key: str) -> None:
    said = _told(text, key)
    assert said is None or TEXTS.mistake(said)


def _told(text: str, key: str) -> UserMistake | None:
    """The mistake in a text, or None; asserts that a value without a mistake is shown and typed again."""
    try:
        value = read(key, text)
    except UserMistake as error:
        return error
    assert value is None or value_text(key, value, TEXTS)
    assert value is None or is_chosen(key) or key == "pixels" or read(key, typed_text(key, value)) == value
    return None


def test_every_digit_of_a_value_is_typed() -> None:
    assert read("cost_per_day", typed_text("cost_per_day", 12345.678)) == 12345.678


@given(st.sampled_from(["steps", "pixels", "cost_per_day", "cool_down"]), st.integers(1, 1000))
def test_a_value_is_typed_as_it_is_read(key: str, value: int) -> None:
    value = value * 1000 if key == "pixels" else value
    assert read(key, typed_text(key, value)) == value


def test_a_higher_level_is_never_treated_more_mildly() -> None:
    assert all(list(levels) == sorted(levels, key=_rank) for levels in LEVELS)
    assert choices_of(FLAGGED[0], TEXTS)[1][1] == LEVELS[0]


def _rank(level: Any) -> int:
    return list(type(level)).index(level)
