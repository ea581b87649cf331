"""Options of other bots in a prompt."""

from __future__ import annotations

import pytest

from bot.front.commands.imagine import imagine_options
from bot.front.recipes.options import OPTION_OF_FLAG, Hint, hints_of
from sdjax_engine.request import Offer, Sampler

OFFER = Offer(
    model="demo",
    sizes=((128, 128), (256, 256)),
    num_inference_steps=20,
    guidance_scale=2.2,
    sampler=Sampler.DDIM,
)
OPTIONS = {option.name for option in imagine_options([OFFER, OFFER])}


@pytest.mark.parametrize(
    ("prompt", "typed", "option"),
    [
        ("a red circle --ar 16:9", "--ar 16:9", "size"),
        ("a red circle —ar 16:9", "—ar 16:9", "size"),
        ("--AR=3:2 a red circle", "--AR=3:2", "size"),
        ("a red circle --no blue, green", "--no blue", "negative_prompt"),
        ("a red circle --seed 7 --ar 1:1", "--seed 7", "seed"),
        ("a red circle --no --seed 7", "--no", "negative_prompt"),
    ],
)
def test_an_option_of_another_bot_is_found_with_the_option_that_does_the_same(
    prompt: str, typed: str, option: str
) -> None:
    assert next(hints_of(prompt)) == Hint(typed=typed, option=option)


@pytest.mark.parametrize(
    "prompt", ["a red circle", "well-known--art", "a -- b", "rock'n'roll --- no", "a --- ar", "--unknown 7"]
)
def test_other_dashes_are_words(prompt: str) -> None:
    assert list(hints_of(prompt)) == []


@pytest.mark.parametrize("tag", ["<lora:ink:0.8>", "<lyco:ink>", "<lora:a b/c.safetensors:1:0.5>"])
def test_a_lora_that_is_only_text_is_found_after_the_flags(tag: str) -> None:
    assert list(hints_of(f"a red circle, {tag} --ar 3:2"))[-1] == Hint(typed=tag, option="lora")


def test_every_option_of_another_bot_is_found_in_order() -> None:
    assert [hint.option for hint in hints_of("--v 6 a red circle --ar 3:2")] == ["model", "size"]


def test_every_hint_names_an_option_that_exists() -> None:
    assert set(OPTION_OF_FLAG.values()) <= OPTIONS
