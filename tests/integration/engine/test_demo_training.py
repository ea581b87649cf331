"""The stages of the demo's training follow each other, and the engine paints with what they made."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bot.cli.demo_model import demo_model
from bot.config import Config
from bot.config.models import ModelConfig
from bot.worker.opening import spec_of
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.demo.objects import OBJECTS
from sdjax_engine.demo.training import __main__ as training
from sdjax_engine.demo.training import (
    autoencoder,
    beside,
    classifier,
    denoiser,
    layout,
    lora,
    pack,
    routes,
    text,
)
from sdjax_engine.engine import Engine
from sdjax_engine.families.stable_diffusion.latents import colours_of
from sdjax_engine.request import Lora, Request
from sdjax_engine.weights import load_checkpoint

LORA = "gold"

pytestmark = pytest.mark.slow


def test_the_engine_paints_with_the_checkpoint_lora_and_classifier_of_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained(tmp_path / "state", tmp_path / "package", monkeypatch)
    package = tmp_path / "package"
    checkpoint = load_checkpoint(str(package / "checkpoint"))
    assert colours_of(checkpoint.components["vae"].config, checkpoint.index) is not None
    painting = checkpoint.index["_painting"]
    offer = ModelConfig(
        sizes=painting["sizes"][:2],
        num_inference_steps=painting["num_inference_steps"],
        guidance_scale=painting["guidance_scale"],
        loras={LORA: "named below"},
    ).offer
    spec = ModelSpec(
        offer=offer,
        source=str(package / "checkpoint"),
        loras={LORA: package / "lora" / f"{LORA}.safetensors"},
        picture_classifier=str(package / "classifier"),
    )
    with Engine.open(EngineConfig(models=(spec,), start_pictures=False), report=print) as engine:
        request = Request(
            prompt="고양이, 밤",
            seed=1,
            num_inference_steps=2,
            guidance_scale=2.0,
            sampler=offer.sampler,
            width=240,
            height=160,
            model=offer.model,
        )
        assert engine.submit(request).result().pixels.shape == (160, 240, 3)


def trained(state: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train every stage for two steps on grey objects, and pack what they made."""
    (state / "sprites").mkdir(parents=True)
    for each in OBJECTS.values():
        Image.fromarray(np.full((8, 8, 4), 255, np.uint8)).save(state / "sprites" / each.file)
    for stage in (autoencoder, text, layout, routes, denoiser, lora, classifier):
        monkeypatch.setattr(stage, "COURSE", replace(stage.COURSE, pictures=8, batch=4))
    monkeypatch.setattr(sys, "argv", ["training", "--state", str(state)])
    training.main()
    assert pack.pack(state, package) < pack.LARGEST


def test_what_lies_beside_the_packaged_checkpoint_is_trained_and_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stage in (lora, classifier):
        monkeypatch.setattr(stage, "COURSE", replace(stage.COURSE, pictures=8, batch=4))
    (tmp_path / "package" / "lora").mkdir(parents=True)
    (tmp_path / "package" / "lora" / "of_another_checkpoint.safetensors").touch()
    arguments = ["beside", "--state", str(tmp_path / "state"), "--into", str(tmp_path / "package")]
    monkeypatch.setattr(sys, "argv", arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        beside.main()
    [model] = Config.parse({"models": [demo_model(tmp_path / "package")]}).models
    spec = spec_of(model)
    assert set(spec.loras) == {"neon"}
    with Engine.open(EngineConfig(models=(spec,), start_pictures=False), report=print) as engine:
        request = Request(
            prompt="a red star",
            seed=1,
            num_inference_steps=1,
            loras=(Lora(name="neon"),),
            guidance_scale=2.2,
            sampler=model.offer.sampler,
            width=128,
            height=128,
            model=model.name,
        )
        assert engine.submit(request).result().classified is not None
