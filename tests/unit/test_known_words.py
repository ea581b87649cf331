"""Which words of a prompt a checkpoint of few words does not know."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sdjax_engine.demo.captions import caption
from sdjax_engine.demo.known_words import write_known_words
from sdjax_engine.demo.objects import LANGUAGES
from sdjax_engine.demo.scenes import sample_scene
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.prompts import unknown_words
from sdjax_engine.weights.files import DEMO_FOLDER, KNOWN_WORDS
from sdjax_engine.weights.folder import read_known_words

KNOWN = frozenset(
    ["a", "cat", "on", "the", "고양이", "가", "위에", "달", "猫", "月亮", "在", "的", "قطة", "ال", "و", "قمر"]
)


@pytest.mark.parametrize(
    ("prompt", "unknown"),
    [
        ("a cat on the cat", ()),
        ("A Cat riding a bicycle, riding", ("riding", "bicycle")),
        ("(cat:1.3), 2 cats", ("cats",)),
        ("scatter", ("scatter",)),  # no Latin word is made of others
        ("고양이가 달 위에", ()),
        ("자전거가 달 위에", ("자전거가",)),
        ("猫在月亮的自行车", ("自行车",)),
        ("القطة والقمر", ()),
        ("دراجة", ("دراجة",)),
        ("🐱 ★ 12 _", ()),
    ],
)
def test_words_are_known_in_the_way_of_their_script(prompt: str, unknown: tuple[str, ...]) -> None:
    assert unknown_words(prompt, KNOWN) == unknown


def test_a_checkpoint_without_a_list_knows_every_word() -> None:
    assert unknown_words("a cat riding a bicycle", frozenset()) == ()


def test_hostile_prompts_give_few_short_words() -> None:
    for prompt in ("w" * 6000, "가" * 6000, "月" * 6000, " ".join(f"word{'x' * n}" for n in range(100))):
        found = unknown_words(prompt, KNOWN)
        assert len(found) <= 8
        assert all(len(word) <= 40 for word in found)


def test_the_list_that_is_packed_with_a_training_has_all_words_of_its_captions(tmp_path: Path) -> None:
    known = read_known_words(write_known_words(tmp_path).parent)
    rng = np.random.default_rng(7)
    for _ in range(300):
        scene = sample_scene(rng, held_out=True)
        for language in LANGUAGES:
            assert unknown_words(caption(scene, language, rng), known) == ()
    for told in ("a cat riding a spaceship", "고양이가 비행기를", "القطة"):
        assert set(unknown_words(told, known)) <= {"riding", "spaceship"}


def test_the_demos_checkpoint_names_its_words_and_damaged_lists_are_refused(tmp_path: Path) -> None:
    known = read_known_words(DEMO_FOLDER)
    prompt = "a large red heart riding a blue star, on a cyan background"
    assert unknown_words(prompt, known) == ("riding",)
    assert read_known_words(tmp_path) == frozenset()
    (tmp_path / KNOWN_WORDS).write_text(json.dumps({"words": ["red"], "also": []}))
    with pytest.raises(UnreadableCheckpoint, match="does not list words by language"):
        read_known_words(tmp_path)
