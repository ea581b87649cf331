"""Adapters that peft itself saves have the scales here that peft gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import diffusers
import pytest
from checkpoints import make_tiny_checkpoint
from peft import LoraConfig, PeftModel, get_peft_model

from sdjax_engine.model.loras import components_of, shapes_of
from sdjax_engine.weights import load_checkpoint
from sdjax_engine.weights.lora import read_lora

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::UserWarning"),  # of peft, about modules that it does not know
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("adapters") / "checkpoint")


@pytest.mark.parametrize(
    "settings",
    [
        {"lora_alpha": 16},
        {"lora_alpha": 16, "use_rslora": True},
        {"rank_pattern": {"to_v": 2}, "alpha_pattern": {"attn1.to_v": 3, "mid_block.*to_q": 5}},
    ],
    ids=["alpha", "rank-stabilised", "patterns"],
)
def test_scales_of_layers_are_those_of_peft(
    settings: dict[str, Any], checkpoint: Path, tmp_path: Path
) -> None:
    config = LoraConfig(r=4, target_modules=["to_q", "to_v"], init_lora_weights=False, **settings)
    unet = diffusers.UNet2DConditionModel.from_pretrained(checkpoint / "unet")
    get_peft_model(unet, config).save_pretrained(tmp_path)
    fresh = diffusers.UNet2DConditionModel.from_pretrained(checkpoint / "unet")
    reference = PeftModel.from_pretrained(fresh, tmp_path)

    ours = read_lora(tmp_path, shapes_of(components_of(load_checkpoint(str(checkpoint)))))

    expected = {
        name.removeprefix("base_model.model."): module.scaling["default"]
        for name, module in reference.named_modules()
        if hasattr(module, "scaling")
    }
    assert {place.path: layer.scale for place, layer in ours.layers.items()} == pytest.approx(expected)
    assert len(expected) > 4
