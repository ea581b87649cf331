"""Generation data in the fields of an embed, as a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.generation_data import NoGenerationData, read_text
from bot.generation_data.fields import text_of_fields


def test_fields_of_any_bot_become_the_text_that_is_read() -> None:
    data = read_text(
        text_of_fields(
            "done!",
            [
                ("**Prompt**", "```a red, old boat```"),
                ("Negative Prompt:", "fog"),
                ("Sampling steps", "20"),
                ("Guidance scale", "`6.5`"),
                ("Sampler", "DPM++ 2M, Karras"),
                ("Resolution", "512x768"),
                ("Checkpoint", "dreamshaper.safetensors"),
                ("Time taken", "3 s"),
            ],
        )
    )
    assert (data.prompt, data.negative_prompt) == ("a red, old boat", "fog")
    assert (data.steps, data.guidance, data.width, data.height) == (20, 6.5, 512, 768)
    assert (data.sampler, data.model, data.unread) == ("DPM++ 2M, Karras", "dreamshaper", ())


def test_the_description_is_the_prompt_where_no_field_is_one() -> None:
    assert read_text(text_of_fields("*a boat*", [("Steps", "9"), ("Seed", "1")])).prompt == "a boat"


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [("Score", "9")],
        [("Prompt", "a boat")],
        [("Prompt", "a boat"), ("Seed", "1"), ("Size", "512x512"), ("Model", "sd15")],
    ],
)
def test_fields_without_a_number_of_steps_are_no_recipe(fields: list[tuple[str, str]]) -> None:
    assert text_of_fields("hello", fields) == ""


@given(
    description=st.text(max_size=50),
    fields=st.lists(
        st.tuples(st.sampled_from(["Steps", "Prompt", "Seed"]) | st.text(max_size=20), st.text())
    ),
)
def test_any_fields_give_data_or_one_error(description: str, fields: list[tuple[str, str]]) -> None:
    try:
        read_text(text_of_fields(description, fields))
    except NoGenerationData:
        return
