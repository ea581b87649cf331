"""The lines below the pictures: every setting that a picture depends on, in the order of the recipe."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recipes import job_of, recipe

from bot.delivery.result import settings_text
from bot.domain.jobs import ImageRecord, Job, Notes, State
from bot.texts.catalogue import Texts
from sdjax_engine.request import Int8, Lora, SecondPass, Variation

ENGLISH = Texts.for_locale("en")
FIRST = "-# seed 7 · 128×128 · 20 steps · guidance 5 · DDIM · demo"


def said(job: Job, *, label: bool = False) -> str:
    return settings_text(job, job.images, ENGLISH, label=label)


@pytest.mark.parametrize(
    ("values", "added"),
    [
        ({}, ""),
        ({"style": "Ink"}, " · style Ink"),
        ({"variations": (Variation(seed=3, strength=0.2),)}, " · varied by seed 3"),
        (
            {"variations": (Variation(seed=3, strength=0.2), Variation(seed=5, strength=0.1))},
            " · varied by seed 3 · varied by seed 5",
        ),
        ({"init_image": "aa/sent.png", "strength": 0.25}, " · from a picture, strength 0.25"),
        (
            {"init_image": "aa/sent.png", "mask_image": "bb/mask.png", "strength": 0.5},
            " · part of a picture repainted, strength 0.5",
        ),
        ({"loras": (Lora(name="ink"),)}, " · with LoRA ink"),
        ({"loras": (Lora(name="ink", weight=0.8), Lora(name="fog"))}, " · with LoRA ink:0.8, fog"),
    ],
)
def test_what_a_picture_was_made_with_follows_its_settings(values: dict[str, object], added: str) -> None:
    assert said(job_of(State.DONE, recipe=recipe(**values))) == FIRST + added


@pytest.mark.parametrize(("steps", "counted"), [(1, "1 step"), (12, "12 steps")])
def test_a_second_pass_is_said_with_the_size_that_it_began_from(steps: int, counted: str) -> None:
    second = SecondPass(width=256, height=192, num_inference_steps=steps, strength=0.4)
    assert said(job_of(State.DONE, recipe=recipe(height=96, second_pass=second))) == (
        FIRST.replace("128×128", "256×192") + f" · enlarged from 128×96, strength 0.4, {counted}"
    )


def test_skipped_layers_are_said_as_people_count_them() -> None:
    skipping = said(job_of(State.DONE, recipe=recipe(clip_skip=1)))
    assert skipping == FIRST.replace("guidance 5", "guidance 5 · clip skip 2")


def test_pictures_of_int8_weights_say_so_behind_the_model() -> None:
    job = job_of(State.DONE, State.DONE)
    first, second = job.images
    rounded = replace(second, notes=Notes(int8=(Int8.TEXT_ENCODER,)))
    assert said(replace(job, images=(first, rounded))).split("\n")[0].endswith("demo · INT8 weights")


def test_a_models_name_is_cut_at_eighty_characters() -> None:
    whole, longer = (said(job_of(State.DONE, recipe=recipe(model="m" * length))) for length in (80, 81))
    assert whole.endswith(" · " + "m" * 80)
    assert longer.endswith(" · " + "m" * 79 + "…")


def test_pictures_of_one_varied_seed_name_the_seeds_of_their_last_variation() -> None:
    near = recipe(variations=(Variation(seed=3, strength=0.2), Variation(seed=5, strength=0.1)))
    job = job_of(State.DONE, State.DONE, recipe=near)
    images: tuple[ImageRecord, ...] = tuple(replace(image, seed=7) for image in job.images)
    lines = said(replace(job, images=images)).split("\n")
    assert lines[0] == FIRST + " · varied by seed 3 · varied by seeds 5, 6"
