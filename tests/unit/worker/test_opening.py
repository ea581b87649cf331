"""What a configuration leaves out, the checkpoint's own configurations say."""

from __future__ import annotations

from pathlib import Path

from checkpoints import FAMILIES, make_tiny_checkpoint

from bot.config import Config, ModelConfig
from bot.worker.opening import settle
from sdjax_engine.request import Sampler


def settled(model: ModelConfig) -> ModelConfig:
    (result,) = settle(Config(models=(model,)), lambda _line: None).models
    return result


def test_the_demo_has_its_own_defaults() -> None:
    assert settled(ModelConfig()) == ModelConfig()


def test_what_is_left_out_is_the_checkpoints_own(tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path / "turbo", **FAMILIES["SD Turbo"])
    model = settled(ModelConfig(name="turbo", checkpoint=str(folder)))
    assert (model.sizes, model.sampler) == (("64x64",), Sampler.EULER)
    assert (model.num_inference_steps, model.guidance_scale) == (50, 7.5)
    assert model.offer.model == "turbo"


def test_what_is_said_is_kept(tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path / "sdxl", **FAMILIES["SDXL"])
    said = ModelConfig(checkpoint=str(folder), sizes=("128x64",), sampler=Sampler.DDIM, max_steps=20)
    model = settled(said)
    assert (model.sizes, model.sampler) == (("128x64",), Sampler.DDIM)
    assert (model.num_inference_steps, model.guidance_scale) == (20, 5.0)
