"""[prompts]: the file of styles, and its mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.config import Config
from bot.domain.errors import ConfigurationError
from bot.front.recipes.options import check

GOOD = """
[[styles]]
name = "👩‍🎨 Ink, dry"
prompt = "{prompt}, ink"
negative_prompt = "photo"
steps = 30
sampler = "euler"
lora = "ink:0.8"
clip_skip = 2

[[styles]]
name = "Bare"
"""


def parsed(tmp_path: Path, text: str) -> Config:
    (tmp_path / "styles.toml").write_text(text, encoding="utf-8")
    return Config.parse({"prompts": {"styles_file": str(tmp_path / "styles.toml")}})


def test_a_file_gives_styles_in_its_order_with_the_options_that_are_there(tmp_path: Path) -> None:
    ink, bare = parsed(tmp_path, GOOD).prompts.styles
    assert (ink.name, ink.prompt, ink.negative_prompt) == ("👩‍🎨 Ink, dry", "{prompt}, ink", "photo")
    assert ink.options == {"steps": 30, "clip_skip": 2, "sampler": "euler", "lora": "ink:0.8"}
    assert bare.options == {}


def test_without_a_file_there_are_no_styles() -> None:
    assert Config().prompts.styles == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[styles]", "is not TOML"),
        ('[[styles]]\nname = ""', "styles[1].name: it may not be empty"),
        ('[[styles]]\nname = " a"', "is no name for a style"),
        ('[[styles]]\nname = "a\\u0000b"', "is no name for a style"),
        ('[[styles]]\nname = "-"', "is no name for a style"),
        ('[[styles]]\nname = "a"\nsteps = 0', "styles[1].steps: 1 is the least"),
        ('[[styles]]\nname = "a"\nsampler = "magic"', "is none of"),
        ('[[styles]]\nname = "a"\nnegativ = "x"', "the nearest is negative_prompt"),
        ('[[styles]]\nname = "a"\n[[styles]]\nname = "A"', "two styles are called 'a'"),
        ('[[style]]\nname = "a"', "the nearest is styles"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_file(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parsed(tmp_path, text)
    [sentence] = str(caught.value).splitlines()[1:]
    assert words in sentence
    assert "styles.toml" in sentence


def test_mistakes_of_the_file_are_listed_beside_the_others() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Config.parse({"prompts": {"styles_file": "nowhere.toml"}, "web": {"port": -1}})
    assert len(str(caught.value).splitlines()) == 3


def test_every_bundled_style_suits_the_demo() -> None:
    config = Config.parse({"prompts": {"styles_file": "starter"}})
    assert len(config.prompts.styles) >= 3
    for style in config.prompts.styles:
        check(style.options, [model.offer for model in config.models])
