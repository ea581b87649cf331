"""The demo's own model: its keys in a configuration, and the page with the words that it knows."""

from __future__ import annotations

import json
from collections.abc import Collection
from html import escape
from pathlib import Path
from typing import Any

from sdjax_engine.weights.files import DEMO, DEMO_FOLDER, KNOWN_WORDS

LANGUAGES = {"en": "English", "ko": "한국어", "zh": "中文", "ar": "العربية"}
OTHER = "other"
"""The label of pictures in which the classifier finds nothing."""

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What the demo's model knows</title>
<style>
  body {{ max-width: 46rem; margin: 0 auto; padding: 1rem 1.2rem 3rem; font: 16px/1.6 system-ui, sans-serif;
    background: #12151b; color: #ebe7df; }}
  h2 {{ margin: 1.6rem 0 .3rem; font-size: 1.1rem; }}
</style>
<h1>What the demo's model knows</h1>
<p>The demo paints with a small model that was trained for it. It knows these words, and no others. A
checkpoint of your own knows more: <code>sdjax-bot demo --model FOLDER</code>. Licence: {licence}.</p>
{lists}
{extras}
</html>
"""


def demo_model(folder: Path = DEMO_FOLDER.parent) -> dict[str, Any]:
    """Return the keys of the demo's model, with the classifier and the LoRAs in `folder`, if there are any.

    Every label of the classifier but OTHER covers a picture, so that levels of pictures can be tried.
    """
    keys: dict[str, Any] = {"name": DEMO, "checkpoint": DEMO, "licence": "Apache-2.0"}
    classifier = folder / "classifier"
    if (classifier / "config.json").is_file():
        labels = json.loads((classifier / "config.json").read_text(encoding="utf-8"))["id2label"].values()
        levels = {label: "none" if label == OTHER else "explicit" for label in labels}
        keys |= {"picture_classifier": str(classifier), "picture_levels": levels}
        keys |= {"flagged": "spoiler", "flagged_age_restricted": "show"}
    if loras := {file.stem: str(file) for file in sorted((folder / "lora").glob("*.safetensors"))}:
        keys["loras"] = loras
    return keys


def words_page(*, licence: str, loras: Collection[str] = (), covered: Collection[str] = ()) -> str:
    """Return the page of the words that the demo's model knows, its LoRAs, and what is covered."""
    known = json.loads((DEMO_FOLDER / KNOWN_WORDS).read_text(encoding="utf-8"))["words"]
    lists = [
        f'<h2>{LANGUAGES[language]}</h2>\n<p lang="{language}" dir="auto">{escape(", ".join(words))}</p>'
        for language, words in known.items()
    ]
    extras = [
        f"<h2>{title}</h2>\n<p>{say} {escape(', '.join(names))}</p>"
        for title, say, names in (
            (
                "LoRAs",
                "Write <code>&lt;lora:NAME:1&gt;</code> behind the words, with one of these names:",
                loras,
            ),
            (
                "Levels of pictures",
                "So that moderators can try them, pictures with one of these are covered:",
                covered,
            ),
        )
        if names
    ]
    return PAGE.format(licence=escape(licence), lists="\n".join(lists), extras="\n".join(extras))
