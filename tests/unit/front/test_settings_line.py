"""Settings as one line that a person edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import discord
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recipes import MODEL, RECIPE, recipe

from bot.domain.errors import UserMistake
from bot.front.answers.modals import MAX_INPUT, settings_field
from bot.front.recipes.options import Asked, parse, parse_loras, parse_second_pass, together
from bot.front.recipes.settings_line import (
    DIGITS,
    KEPT,
    LISTS,
    PAINTED,
    PREFERABLE,
    SETTINGS,
    options_line,
    settings_in,
    settings_of,
)
from bot.texts.catalogue import LANGUAGES, Texts
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import MAX_GUIDANCE_SCALE, MAX_LORA_WEIGHT, ControlType, Lora, Sampler, SecondPass

ENGLISH = Texts.for_locale("en")
OFFER = MODEL.offer
FULL = recipe(
    sampler=Sampler.DPMPP_2M_KARRAS,
    variants=4,
    init_image="aa/sent.png",
    strength=0.35,
    clip_skip=1,
    control_image="cc/sent.png",
    controlnet="canny",
    control_type=ControlType.LINES,
    control_strength=0.8,
    image_prompt="dd/sent.png",
    image_prompt_strength=0.4,
    reference="ee/sent.png",
    loras=(Lora(name="ink", weight=0.8), Lora(name="fog")),
)


def read(line: str, names: Texts, *, settings: Sequence[str] = PAINTED) -> dict[str, Any]:
    """The settings in a line; raises its mistakes."""
    found, wrong = settings_in(line, names, settings=settings)
    if wrong:
        raise together(wrong)
    return found


def test_the_line_names_every_setting_as_the_command_does() -> None:
    assert options_line(settings_of(FULL), ENGLISH) == (
        "size 128x128, variants 4, steps 20, guidance 5, clip_skip 2, sampler DPM++ 2M Karras, seed 7, "
        "strength 0.35, control_type lines, control_strength 0.8, image_prompt_strength 0.4, "
        "lora ink:0.8, fog, model demo, reference 1"
    )
    assert not {"strength", "control", "image_prompt_strength"} & set(
        options_line(settings_of(RECIPE), ENGLISH).split()
    )


@pytest.mark.parametrize(("own", "skipped", "said"), [(0, 0, None), (0, 1, 2), (1, 1, None), (1, 0, 1)])
def test_clip_skip_is_in_the_line_where_it_is_not_the_models(
    own: int, skipped: int, said: int | None
) -> None:
    offers = [replace(OFFER, clip_skip=own, most_skipped=3)]
    written = recipe(clip_skip=skipped, model=OFFER.model)
    values = read(options_line(settings_of(written, offers), ENGLISH), ENGLISH)
    assert values.get("clip_skip") == said
    assert parse(Asked(prompt="a boat", **values), offers).clip_skip == skipped


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_line_reads_as_it_was_written_in_every_language(language: str) -> None:
    names = Texts.for_locale(language)
    assert read(options_line(settings_of(FULL), names), names, settings=(*PAINTED, KEPT)) == {
        "size": "128x128",
        "variants": 4,
        "steps": 20,
        "guidance": 5.0,
        "clip_skip": 2,
        "sampler": "DPM++ 2M Karras",
        "seed": 7,
        "strength": 0.35,
        "control_type": "lines",
        "control_strength": 0.8,
        "image_prompt_strength": 0.4,
        "lora": "ink:0.8, fog",
        "model": "demo",
        "reference": 1,
    }


def test_common_spellings_are_understood() -> None:
    typed = " Steps: 30,guidance=7.5 ,\nseed , seed 5, seed 6,"
    assert read(typed, ENGLISH) == {"steps": 30, "guidance": 7.5, "seed": 6}
    assert read("steps 9", Texts.for_locale("ko")) == {"steps": 9}
    assert read("STEPS:: 12", ENGLISH) == {"steps": 12}
    assert read("steps 9\nseed 5", ENGLISH) == {"steps": 9, "seed": 5}
    assert read("", ENGLISH) == {}


@pytest.mark.parametrize("typed", ["style , noir", "style\nnoir", "style,, noir"])
def test_a_style_may_be_behind_a_comma_or_on_the_next_line(typed: str) -> None:
    assert read(typed, ENGLISH) == {"style": "noir"}


def test_a_name_of_a_style_keeps_its_spaces_and_signs() -> None:
    assert read("style = ink = wash", ENGLISH) == {"style": "ink = wash"}
    assert read("style ink = wash", ENGLISH) == {"style": "ink = wash"}


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("cfg 7", "settings_name"),
        ("stepsX 7", "settings_name"),
        ("steps many", "settings_number"),
        ("seed " + "9" * 5000, "settings_number"),
    ],
)
def test_a_mistake_is_named(typed: str, problem: str) -> None:
    assert mistake(typed).message_id == problem


def mistake(typed: str, language: str = "en", **how: Any) -> UserMistake:
    with pytest.raises(UserMistake) as refused:
        read(typed, Texts.for_locale(language), **how)
    return refused.value


def test_a_mistake_says_what_was_typed_and_what_there_is_in_the_persons_language() -> None:
    unknown = mistake("cfg 7", settings=("steps", "seed"))
    assert unknown.details == {"value": "cfg 7", "choices": "steps, seed"}
    assert mistake("steps many").details == {"name": "steps", "value": "many"}
    korean = Texts.for_locale("ko").pgettext("name", "steps")
    assert mistake("steps many", "ko").details == {"name": korean, "value": "many"}
    assert mistake("cfg", "ko", settings=("steps",)).details == {"value": "cfg", "choices": korean}
    assert mistake("previews often", "en", settings=SETTINGS).details == {
        "name": "previews",
        "value": "often",
    }
    assert mistake("previews often", "en", settings=SETTINGS).message_id == "settings_switch"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_switch_is_written_and_read_in_words_of_the_language_and_in_english(language: str) -> None:
    names = Texts.for_locale(language)
    for value, word in ((True, "on"), (False, "OFF")):
        line = options_line({"previews": value}, names)
        assert read(line.upper(), names, settings=PREFERABLE) == {"previews": value}
        assert read(f"previews {word}", names, settings=PREFERABLE) == {"previews": value}
    assert options_line({"previews": False}, ENGLISH) == "previews off"


def test_a_switch_is_written_in_the_persons_language() -> None:
    korean = Texts.for_locale("ko")
    assert options_line({"previews": True}, korean) == "미리보기 켜기"
    assert options_line({"previews": False}, korean) == "미리보기 끄기"


def test_options_without_a_value_are_left_out_and_numbers_are_short() -> None:
    options = {"steps": 0, "guidance": 7.0, "seed": None, "model": "", "size": "512x512", "other": 1}
    assert options_line(options, ENGLISH) == "size 512x512, steps 0, guidance 7"


@pytest.mark.parametrize("name", LISTS)
def test_parts_without_a_name_continue_a_list_and_nothing_else(name: str) -> None:
    assert read(f"{name} one, two, three", ENGLISH) == {name: "one, two, three"}
    assert mistake(f"{name} one, steps 5, two").details["value"] == "two"


def test_the_longest_number_is_read_and_a_longer_one_refused() -> None:
    assert read("seed " + "9" * DIGITS, ENGLISH) == {"seed": 10**DIGITS - 1}
    assert mistake("seed " + "9" * (DIGITS + 1)).message_id == "settings_number"


def test_a_name_without_a_value_leaves_its_option_as_it_was() -> None:
    assert read("steps, size =, sampler DDIM", ENGLISH) == {"sampler": "DDIM"}


@given(
    guidance=st.floats(0, MAX_GUIDANCE_SCALE),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    weights=st.tuples(*[st.floats(-MAX_LORA_WEIGHT, MAX_LORA_WEIGHT)] * 2),
)
def test_every_digit_of_a_number_is_written_and_read(
    guidance: float, shares: tuple[float, float], weights: tuple[float, float]
) -> None:
    ink, fog = weights
    written = replace(
        FULL,
        reference=None,
        guidance_scale=guidance,
        strength=shares[0],
        loras=(Lora(name="ink", weight=ink), Lora(name="fog", weight=fog)),
        second_pass=SecondPass(width=256, height=256, strength=shares[1], num_inference_steps=20),
    )
    offer = replace(OFFER, sizes=((128, 128), (256, 256)), loras=("ink", "fog"))
    values = read(options_line(settings_of(written), ENGLISH), ENGLISH)
    assert (values["guidance"], values["strength"]) == (guidance, shares[0])
    assert parse_loras(values["lora"], offer) == written.loras
    assert parse_second_pass(values["hires"], (128, 128), steps=9, offer=offer) == written.second_pass


def test_a_line_without_room_in_a_form_is_refused_unless_it_is_edited() -> None:
    names = [f"lora-{number}" for number in range(500)]
    line = options_line({"steps": 9, "lora": ", ".join(names), "model": "demo"}, ENGLISH)
    field = settings_field(ENGLISH, line).component
    assert isinstance(field, discord.ui.TextInput)
    assert field.default is not None
    assert len(field.default) == field.max_length == MAX_INPUT
    typed = read(field.default, ENGLISH)
    with pytest.raises(InvalidRequest) as refused:
        parse(Asked(prompt="a boat", **typed), [replace(OFFER, loras=tuple(names))])
    assert str(refused.value.details["value"]).endswith("…")


@given(st.text(max_size=600))
@example("0" * 18 + "\n0")  # two names that no setting has
def test_any_text_is_read_or_refused_with_a_sentence(typed: str) -> None:
    refused: list[UserMistake] = []
    try:
        read(typed, ENGLISH)
    except UserMistake as error:
        refused.append(error)
    assert all(len(ENGLISH.mistake(error)) < 300 for error in refused)
