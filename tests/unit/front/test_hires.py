"""Second passes as typed, and the recipes of their pictures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes import RECIPE, job_of, recipe

from bot.domain.errors import UserMistake
from bot.domain.jobs import Recipe, State
from bot.domain.sizes import nearest_larger
from bot.front.recipes.options import Asked, hires_choices, hires_text, parse, with_given
from bot.front.recipes.variations import enlarged, varied, varied_near
from bot.store.rows.jobs import recipe_from, recipe_values
from bot.texts.catalogue import Texts
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import Offer, Sampler, SecondPass

ENGLISH = Texts.for_locale("en")
OFFER = Offer(
    model="demo",
    sizes=((512, 512), (768, 512), (1024, 1024), (1536, 1024), (2048, 2048)),
    num_inference_steps=20,
    guidance_scale=7.0,
    sampler=Sampler.DDIM,
    max_steps=60,
)
SECOND = SecondPass(width=1024, height=1024, strength=0.5, num_inference_steps=20)
LARGE = recipe(width=512, height=512, second_pass=SECOND)


def parsed(hires: str, **asked: object) -> Recipe:
    return parse(Asked(prompt="a bird", hires=hires, **asked), [OFFER], new_seed=lambda: 7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("1024x1024", SECOND),
        ("2x", SECOND),
        ("x2", SECOND),
        ("×2", SECOND),
        ("2.0x", SECOND),
        ("4x", replace(SECOND, width=2048, height=2048)),
        ("1024 x 1024".replace(" ", ""), SECOND),
        ("1024x1024 0.3", replace(SECOND, strength=0.3)),
        ("1024x1024 15", replace(SECOND, num_inference_steps=15)),
        ("1024x1024 0.3 15", replace(SECOND, strength=0.3, num_inference_steps=15)),
        ("15 .3 1024X1024", replace(SECOND, strength=0.3, num_inference_steps=15)),
        ("1024x1024, strength 0.3, steps 15", replace(SECOND, strength=0.3, num_inference_steps=15)),
        ("1024x1024 0.3333333333333333 15", replace(SECOND, strength=1 / 3, num_inference_steps=15)),
        ("1024x1024 1e-05", replace(SECOND, strength=1e-05)),
        ("1024x1024 1", replace(SECOND, strength=1.0)),
        ("1024x1024 2", replace(SECOND, num_inference_steps=2)),
        ("2*", SECOND),
        ("1024x1024 strength: 0.3 steps= 15", replace(SECOND, strength=0.3, num_inference_steps=15)),
    ],
)
def test_a_second_pass_is_read_as_it_is_typed(typed: str, expected: SecondPass) -> None:
    assert parsed(typed).second_pass == expected


@pytest.mark.parametrize("typed", ["large", "0.5", "15", "1024x1024 %", "1024", "1024x1024 0.5.1", "2", "-"])
def test_anything_else_is_refused_with_the_sizes_to_choose_from(typed: str) -> None:
    with pytest.raises(UserMistake) as refused:
        parsed(typed)
    assert refused.value.message_id == "hires"
    assert refused.value.details == {"value": typed, "choices": "1024x1024, 2048x2048"}


@pytest.mark.parametrize(
    ("typed", "size", "problem"),
    [
        ("512x512", "512x512", "second_pass_size"),
        ("1536x1024", "512x512", "second_pass_size"),
        ("3x", "512x512", "second_pass_size"),
        ("1024x1024", "2048x2048", "no_second_pass"),
        ("large", "2048x2048", "no_second_pass"),
        ("1024x1024 100", "512x512", "steps"),
        ("1024x1024 1.5", "512x512", "strength"),
    ],
)
def test_a_second_pass_that_no_model_paints_is_refused(typed: str, size: str, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(typed, size=size)
    assert refused.value.problem == problem


@given(st.text(max_size=100))
def test_any_text_is_a_second_pass_or_one_sentence(text: str) -> None:
    try:
        second = parsed(text).second_pass
    except (InvalidRequest, UserMistake) as mistake:
        said = ENGLISH.mistake(mistake)
    else:
        said = "" if second is None else hires_text(second)
    assert bool(said) == bool(text)


def test_a_start_picture_without_a_size_decides_the_size_of_both_passes() -> None:
    asked = Asked(prompt="a bird", hires="2x", image=True)
    plain = parse(asked, [OFFER])
    assert plain.second_pass is None
    started = with_given(
        plain, asked, OFFER, names={"init_image": "aa/a.png"}, sizes={"init_image": (3000, 2000)}
    )
    assert (started.width, started.height) == (768, 512)
    assert started.second_pass is not None
    assert started.picture_size == (1536, 1024)


@pytest.mark.parametrize("typed", ["2x 0.3", "X2, 0.3", "1536*1024 0.3", "1536×1024  0.3"])
def test_second_passes_are_suggested_for_what_the_option_accepts(typed: str) -> None:
    assert [value for _, value in hires_choices(typed, "768x512", OFFER)] == ["1536x1024 0.3"]
    assert "1536x1024" in [value for _, value in hires_choices("2x", "768x512", OFFER)]


def test_a_factor_is_named_where_a_model_has_it_else_its_larger_sizes_are_suggested() -> None:
    assert hires_choices("", "768x512", OFFER)[0] == ("1536x1024 (2x)", "1536x1024")
    without = [value for _, value in hires_choices("3x", "768x512", OFFER)]
    assert without == ["1536x1024", "1536x1024 0.3", "1536x1024 0.5", "1536x1024 0.7"]
    assert hires_choices("1536x10", "768x512", OFFER)[0][1] == "1536x1024"
    assert hires_choices("900x600", "768x512", OFFER) == []


def test_the_store_keeps_the_whole_recipe_and_reads_older_recipes() -> None:
    for whole in (LARGE, replace(RECIPE, guidance_interval=(0.1, 0.6))):
        assert recipe_from(json.loads(json.dumps(recipe_values(whole)))) == whole
    later = ("second_pass", "guidance_interval")
    old = {name: value for name, value in recipe_values(RECIPE).items() if name not in later}
    assert recipe_from(old) == RECIPE


def test_a_step_of_the_second_pass_counts_by_its_pixels() -> None:
    assert LARGE.steps == 20 + 10 * 4
    assert LARGE.cost == pytest.approx((20 * 512 * 512 + 10 * 1024 * 1024) / 1e6)


def test_a_job_from_a_two_pass_picture_has_its_size_and_one_pass() -> None:
    job = job_of(State.DONE, recipe=LARGE)
    for child in (varied(job, 0, seed=3), enlarged(job, 0, OFFER)):
        assert child.second_pass is None
        assert child.init_image == "aa/0.png"
    assert varied(job, 0, seed=3).picture_size == (1024, 1024)
    assert enlarged(job, 0, OFFER).picture_size == (2048, 2048)
    assert varied_near(job, 0, seed=3).second_pass == SECOND


def test_the_nearest_larger_size_is_the_one_with_as_many_pixels() -> None:
    larger = OFFER.larger_sizes((512, 512))
    assert nearest_larger((1000, 1000), larger) == (1024, 1024)
    assert nearest_larger((1800, 1800), larger) == (2048, 2048)
    assert nearest_larger((1800, 1800), []) is None
