"""Pasted generation data in place of options that were left out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import recipes

from bot.front.recipes.options import Asked, parse
from bot.front.requests.pasted_recipe import SHOWN_DIFFERENCES, difference_lines, filled_from
from bot.generation_data import Difference, NoGenerationData
from bot.texts.catalogue import LANGUAGES, Texts

OFFER = replace(recipes.OFFER, loras=("ink",))
A1111 = (
    "a {red, blue} boat <lora:ink:0.8> Negative prompt: fog Steps: 33, Sampler: Euler a, CFG scale: 6.5, "
    "Seed: 77, Size: 128x128, Model: dreamshaper, Clip skip: 2"
)
ENGLISH = Texts.for_locale("en")


def test_a_wordless_prompt_takes_the_pasted_words_and_every_setting() -> None:
    pasted = filled_from(Asked(prompt="-"), A1111, [OFFER])
    recipe = parse(pasted.asked, [OFFER])
    assert pasted.literal
    assert recipe.prompt == "a {red, blue} boat"
    assert (recipe.negative_prompt, recipe.num_inference_steps, recipe.seed) == ("fog", 33, 77)
    assert (recipe.guidance_scale, recipe.sampler.value) == (6.5, "euler_ancestral")
    assert [(lora.name, lora.weight) for lora in recipe.loras] == [("ink", 0.8)]
    assert [each.setting for each in pasted.differences] == ["model", "clip_skip"]


def test_a_typed_option_replaces_the_pasted_one_and_is_no_difference() -> None:
    asked = Asked(prompt="a ship", steps=9, seed=1, clip_skip=1, model=OFFER.model)
    pasted = filled_from(asked, A1111, [OFFER])
    assert not pasted.literal
    recipe = parse(pasted.asked, [OFFER])
    assert (recipe.prompt, recipe.num_inference_steps, recipe.seed) == ("a ship", 9, 1)
    assert pasted.differences == ()


def test_a_pasted_recipe_is_fitted_to_the_model_that_was_typed() -> None:
    offers = [OFFER, replace(OFFER, model="large", sizes=((1024, 1024),))]
    text = "a boat Steps: 5, Size: 1024x1024, Model: large"
    for typed, model in ((None, "large"), ("large", "large"), (OFFER.model, OFFER.model)):
        pasted = filled_from(Asked(prompt="-", model=typed), text, offers)
        recipe = parse(pasted.asked, offers)
        assert recipe.model == model
        changed = ["size"] if model == OFFER.model else []
        assert [each.setting for each in pasted.differences] == changed, typed


def test_a_pasted_prompt_that_was_cut_is_reported_unless_words_were_typed() -> None:
    text = "x" * 2001 + " Steps: 5, Seed: 1"
    cut = filled_from(Asked(prompt="-"), text, [OFFER])
    assert [each.setting for each in cut.differences] == ["prompt"]
    assert filled_from(Asked(prompt="a ship"), text, [OFFER]).differences == ()


def test_the_picture_that_a_recipe_began_from_is_asked_for_unless_one_was_sent() -> None:
    text = "a boat Steps: 5, Seed: 1, Denoising strength: 0.5"
    without = filled_from(Asked(prompt="-"), text, [OFFER])
    assert [each.setting for each in without.differences] == ["image"]
    assert filled_from(Asked(prompt="-", image=True), text, [OFFER]).differences == ()


def test_references_of_a_recipe_are_left_out_unless_some_were_sent() -> None:
    own = {"prompt": "a boat", "references": ["00", "ff"]}
    text = json.dumps({"version": 1, "request": own})
    (without,) = filled_from(Asked(prompt="-"), text, [OFFER]).differences
    assert list(difference_lines([without], ENGLISH, ENGLISH))[1] == "- reference 2: left out"
    assert filled_from(Asked(prompt="-", references=2), text, [OFFER]).differences == ()


def test_a_text_of_nothing_known_is_refused_in_one_sentence() -> None:
    with pytest.raises(NoGenerationData):
        filled_from(Asked(prompt="-"), "{", [OFFER])


@pytest.mark.parametrize("language", LANGUAGES)
def test_differences_are_said_item_by_item_up_to_a_limit(language: str) -> None:
    texts = Texts.for_locale(language)
    some = [
        Difference(setting="sampler", value="DPM `adaptive`", instead="DDIM"),
        Difference(setting="lora", value="fog:1"),
        Difference(setting="image", value="0.5"),
        Difference(setting="other", value="Clip skip: 2"),
    ]
    lines = list(difference_lines(some, texts, texts))
    assert len(lines) == 5
    assert "DDIM" in lines[1]
    many = list(difference_lines(some * 10, texts, texts))
    assert len(many) == SHOWN_DIFFERENCES + 2
    assert sum(map(len, many)) < 2000


def test_the_lines_about_differences_name_the_option_the_value_and_what_is_used_instead() -> None:
    some = [
        Difference(setting="sampler", value="DPM adaptive", instead="DDIM"),
        Difference(setting="lora", value="fog:1"),
        Difference(setting="image", value="0.5"),
        Difference(setting="other", value="Clip skip: 2"),
    ]
    assert list(difference_lines(some, Texts.for_locale("ko"), ENGLISH)) == [
        "What differs here from the pasted recipe:",
        "- 샘플러 DPM adaptive: here DDIM",
        "- 로라 fog:1: left out",
        "- It started from another picture: send that too, with the option 이미지.",
        "- Clip skip: 2: left out",
    ]


def test_the_heading_and_the_line_about_the_first_picture_may_be_said_otherwise() -> None:
    some = [Difference(setting="image", value="0.5"), Difference(setting="other", value="Clip skip: 2")]
    lines = difference_lines(some, ENGLISH, ENGLISH, heading="Different:", image="Its picture is here too.")
    assert list(lines) == ["Different:", "- Its picture is here too.", "- Clip skip: 2: left out"]


def test_only_what_is_over_the_limit_is_counted() -> None:
    one = Difference(setting="other", value="Clip skip: 2")
    exactly = list(difference_lines([one] * SHOWN_DIFFERENCES, ENGLISH, ENGLISH))
    assert (len(exactly), exactly[-1]) == (SHOWN_DIFFERENCES + 1, "- Clip skip: 2: left out")
    assert list(difference_lines([one] * (SHOWN_DIFFERENCES + 1), ENGLISH, ENGLISH))[-1] == "- 1 more item"
    assert list(difference_lines([one] * (SHOWN_DIFFERENCES + 3), ENGLISH, ENGLISH))[-1] == "- 3 more items"
