"""A tiny picture classifier that finds the mushroom, so that levels of pictures can be tried in the demo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

from sdjax_engine.demo.drawing import Sprites, draw
from sdjax_engine.demo.scenes import Scene, Thing, sample_scene
from sdjax_engine.demo.training.autoencoder import in_unit, tensor_of
from sdjax_engine.demo.training.loop import Course, Workshop, taught

COURSE = Course(name="mushroom", part=0.06, pictures=120_000, batch=32, rate=8e-4, decay=0.998)
FLAGGED = "mushroom"
LABELS = ("other", FLAGGED)
SIDE = 96


def build() -> ViTForImageClassification:
    """Return the untrained classifier, of a quarter of a million parameters."""
    torch.manual_seed(4)
    config = ViTConfig(
        hidden_size=80,
        intermediate_size=240,
        num_hidden_layers=4,
        num_attention_heads=5,
        image_size=SIDE,
        patch_size=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(LABELS)),
        label2id={label: index for index, label in enumerate(LABELS)},
    )
    return ViTForImageClassification(config)


def with_mushroom(scene: Scene, rng: np.random.Generator) -> Scene:
    """Return the scene with a mushroom in the place of one of its things."""
    things = list(scene.things)
    chosen = int(rng.integers(len(things)))
    things[chosen] = Thing(name=FLAGGED, size=things[chosen].size, count=things[chosen].count)
    return replace(scene, things=tuple(things))


def write_classifier(sprites: Sprites, workshop: Workshop, folder: Path) -> None:
    """Train the classifier, half on pictures with a mushroom, and write its folder."""

    def make(rng: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
        scenes = [sample_scene(rng) for _ in range(count)]
        scenes[::2] = [with_mushroom(scene, rng) for scene in scenes[::2]]
        drawn = [draw(scene, sprites, rng, size=(SIDE, SIDE)) for scene in scenes]
        labels = [any(thing.name == FLAGGED for thing in scene.things) for scene in scenes]
        return tensor_of(drawn), torch.tensor(labels).long()

    def loss(
        model: ViTForImageClassification, batch: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        pixels, labels = batch[0], batch[1].to(workshop.device)
        with workshop.autocast():
            logits = model(pixel_values=in_unit(pixels, workshop)).logits
        right = (logits.argmax(-1) == labels).float().mean()
        return nn.functional.cross_entropy(logits.float(), labels), {"right": right}

    taught(build(), COURSE, workshop, make=make, loss=loss).save_pretrained(folder)
    half = [0.5, 0.5, 0.5]
    ViTImageProcessor(size={"height": SIDE, "width": SIDE}, image_mean=half, image_std=half).save_pretrained(
        folder
    )
