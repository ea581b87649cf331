"""The demo's model in a configuration: with what lies beside its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from bot.cli.demo_model import demo_model, words_page
from bot.config import Config


def test_a_classifier_and_loras_beside_the_checkpoint_are_used(tmp_path: Path) -> None:
    assert "picture_classifier" not in demo_model(tmp_path)
    (tmp_path / "classifier").mkdir()
    labels = {"id2label": {"0": "other", "1": "cyan"}}
    (tmp_path / "classifier" / "config.json").write_text(json.dumps(labels))
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / "gold.safetensors").touch()
    [model] = Config.parse({"models": [demo_model(tmp_path)]}).models
    assert model.picture_levels == {"other": "none", "cyan": "explicit"}
    assert (model.flagged[1], model.flagged_age_restricted[1]) == ("spoiler", "show")
    assert model.loras == {"gold": str(tmp_path / "lora" / "gold.safetensors")}


def test_the_page_of_words_quotes_nothing_as_html() -> None:
    page = words_page(licence="<b>")
    assert "&lt;b&gt;" in page
    assert "circle, square" in page
    assert "LoRA" not in page


def test_the_page_of_words_names_the_loras_and_what_is_covered() -> None:
    page = words_page(licence="MIT", loras=["neon"], covered=["cyan"])
    assert "with one of these names: neon<" in page
    assert "are covered: cyan<" in page
