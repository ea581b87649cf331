"""Settings as one line that a person edits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes import RECIPE, recipe

from bot.errors import UserMistake
from bot.front.settings_line import read_settings_line, settings_line
from bot.texts import LANGUAGES, Texts
from sdjax_engine.request import Lora, Sampler

ENGLISH = Texts.for_locale("en")
FULL = recipe(
    sampler=Sampler.DPMPP_2M_KARRAS,
    variants=4,
    init_image="aa/sent.png",
    strength=0.35,
    loras=(Lora(name="ink", weight=0.8), Lora(name="fog")),
)


def test_the_line_names_every_setting_as_the_command_does() -> None:
    assert settings_line(FULL, ENGLISH) == (
        "size 128x128, variants 4, steps 20, guidance 5, sampler DPM++ 2M Karras, seed 7, strength 0.35, "
        "lora ink:0.8, fog, model demo"
    )
    assert "strength" not in settings_line(RECIPE, ENGLISH)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_line_reads_as_it_was_written_in_every_language(language: str) -> None:
    names = Texts.for_locale(language)
    assert read_settings_line(settings_line(FULL, names), names) == {
        "size": "128x128",
        "variants": 4,
        "steps": 20,
        "guidance": 5.0,
        "sampler": "DPM++ 2M Karras",
        "seed": 7,
        "strength": 0.35,
        "lora": "ink:0.8, fog",
        "model": "demo",
    }


def test_common_spellings_are_understood() -> None:
    typed = " Steps: 30,guidance=7.5 ,\nseed , seed 5, seed 6,"
    assert read_settings_line(typed, ENGLISH) == {"steps": 30, "guidance": 7.5, "seed": 6}
    assert read_settings_line("steps 9", Texts.for_locale("ko")) == {"steps": 9}
    assert read_settings_line("", ENGLISH) == {}


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("cfg 7", "settings_name"),
        ("steps many", "settings_number"),
        ("seed " + "9" * 5000, "settings_number"),
    ],
)
def test_a_mistake_is_named(typed: str, problem: str) -> None:
    with pytest.raises(UserMistake, match=problem):
        read_settings_line(typed, ENGLISH)


@given(st.text(max_size=600))
def test_any_text_is_read_or_refused_with_a_sentence(typed: str) -> None:
    refused: list[UserMistake] = []
    try:
        read_settings_line(typed, ENGLISH)
    except UserMistake as error:
        refused.append(error)
    assert all(len(ENGLISH.mistake(error)) < 300 for error in refused)
