"""The words that the demo checkpoint knows: the file that lies in its folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sdjax_engine.demo.captions import caption
from sdjax_engine.demo.objects import LANGUAGES, OBJECTS
from sdjax_engine.demo.scenes import COLOURS, GROUNDS, SHAPES, STYLES, Scene, Thing, sample_scene
from sdjax_engine.prompts.tokenizer import IS_HAN, unknown_words
from sdjax_engine.weights.files import KNOWN_WORDS

SCENES = 2000  # random ones, whose captions are read beside those of every object
SMALL = (
    *("a", "an", "the", "and", "with", "of", "in", "on", "at", "to", "is", "are", "by", "it", "its", "some"),
    *("은", "는", "이", "가", "을", "를", "와", "과", "의", "에", "에서", "도", "로", "으로", "하고", "있는"),
    *("的", "了", "和", "是", "有", "着", "里", "上", "下"),
    *("ال", "و", "ب", "ل", "ان", "تان", "في", "من", "مع"),
)
"""Articles and particles, which people use and captions do not always have."""


def known_words() -> dict[str, object]:
    """Return the names of all objects by language, and all other words of captions."""
    words = {
        language: list(dict.fromkeys(name for each in OBJECTS.values() for name in each.names[language]))
        for language in LANGUAGES
    }
    words["en"] += [*SHAPES, *COLOURS, *GROUNDS, *STYLES]
    entries = [entry.casefold() for names in words.values() for entry in names]
    known = {word for entry in entries for word in (entry, *entry.split())} | set(SMALL)
    also = dict.fromkeys(SMALL)
    rng = np.random.default_rng(0)
    things = [Thing(name=name, count=count) for name in OBJECTS for count in (1, 2, 3)]
    scenes = [Scene(things=(thing,)) for thing in things * 8] + [sample_scene(rng) for _ in range(SCENES)]
    for text in (caption(scene, language, rng) for scene in scenes for language in LANGUAGES):
        for word in unknown_words(text, known):
            pieces = list(word) if IS_HAN.match(word) else [word]
            known.update(pieces)
            also |= dict.fromkeys(pieces)
    return {"words": words, "also": sorted(also)}


def write_known_words(folder: Path) -> Path:
    """Write the file KNOWN_WORDS into a checkpoint's folder, and return it."""
    file = folder / KNOWN_WORDS
    file.write_text(json.dumps(known_words(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return file
