"""A tiny picture classifier that finds cyan things, so that levels of pictures can be tried in the demo.

A colour is learnt in minutes. A shape in any colour, size and place was not, in a quarter of an hour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

from sdjax_engine.demo.checker import IN_COLOUR
from sdjax_engine.demo.drawing import Sprites, draw
from sdjax_engine.demo.scenes import Scene, sample_scene
from sdjax_engine.demo.training.autoencoder import in_unit, tensor_of
from sdjax_engine.demo.training.loop import Course, Workshop, taught

FLAGGED = "cyan"
COURSE = Course(name=FLAGGED, part=0.06, pictures=40_000, batch=32, rate=8e-4, decay=0.998)
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


def with_cyan(scene: Scene, rng: np.random.Generator) -> Scene:
    """Return the scene with one of its things in cyan, unless the ground is."""
    things = list(scene.things)
    chosen = int(rng.integers(len(things)))
    if scene.ground != FLAGGED:
        things[chosen] = replace(things[chosen], colour=FLAGGED)
    return replace(scene, things=tuple(things))


def shows_cyan(scene: Scene) -> bool:
    """Whether something in the picture of a scene is cyan."""
    colours = {scene.ground, *(thing.colour for thing in scene.things)}
    return FLAGGED in colours and scene.style in IN_COLOUR


def write_classifier(
    sprites: Sprites,
    workshop: Workshop,
    folder: Path,
    *,
    sample: Callable[[np.random.Generator], Scene] = sample_scene,
) -> None:
    """Train the classifier on scenes from `sample`, every second with a cyan thing, and write its folder.

    A cyan ground counts too; a style without colours hides both.
    """

    def make(rng: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
        scenes = [sample(rng) for _ in range(count)]
        scenes[::2] = [with_cyan(scene, rng) for scene in scenes[::2]]
        drawn = [draw(scene, sprites, rng, size=(SIDE, SIDE)) for scene in scenes]
        labels = [shows_cyan(scene) for scene in scenes]
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
