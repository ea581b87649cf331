"""Teaches the demo's text encoder where everything is: its last tokens come to describe the picture's cells.

A caption of the demo has at most thirty tokens; the others of the 77 are end tokens, which see the whole
caption. The last 25 of them are taught to hold the content of the cells of a grid of five by five: a linear
map of each must predict its cell of the latents, and another the thing in it. The denoiser then reads a place
of the picture at a place of the encoding (see `routes`). Without this stage, a denoiser of this size had
learnt grounds and places after 90,000 pictures, and not one thing.
"""

from __future__ import annotations

import numpy as np
import torch
from diffusers import AutoencoderKL
from torch import Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel

from sdjax_engine.demo.captions import caption
from sdjax_engine.demo.drawing import Sprites, draw
from sdjax_engine.demo.scenes import sample_scene
from sdjax_engine.demo.training.autoencoder import in_unit, tensor_of
from sdjax_engine.demo.training.loop import Course, Workshop, taught
from sdjax_engine.demo.training.text import (
    CLASSES,
    EMPTY_WEIGHT,
    LENGTH,
    WIDTH,
    any_language,
    labels_of,
    token_ids,
)
from sdjax_engine.prompts import Tokenizer

COURSE = Course(name="layout", part=0.3, pictures=200_000, batch=48, rate=1e-3, decay=0.998, muon=True)
GRID, CELL = 5, 4
FIRST = LENGTH - GRID**2
LAYERS = 6
CAPTIONS = 2
"""Each drawn scene has two captions in a batch: drawing and encoding take a third of the time."""
THING_PART = 0.1
GROUND_WEIGHT = 0.3
Batch = tuple[Tensor, Tensor, Tensor]


def deepened(encoder: CLIPTextModel) -> CLIPTextModel:
    """Return an encoder with LAYERS layers that answers as the given one: the new layers add nothing yet."""
    torch.manual_seed(2)
    config = CLIPTextConfig(**{**encoder.config.to_dict(), "num_hidden_layers": LAYERS})
    deeper = CLIPTextModel(config)
    known = encoder.state_dict()
    with torch.no_grad():
        for name, value in deeper.state_dict().items():
            if name in known:
                value.copy_(known[name])
            elif "out_proj" in name or "fc2" in name:
                value.zero_()
    return deeper


class Reader(nn.Module):
    """The text encoder, and linear maps from the tokens of the cells to their latents and things."""

    def __init__(self, encoder: CLIPTextModel, channels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.content = nn.Linear(WIDTH, channels * CELL**2)
        self.thing = nn.Linear(WIDTH, CLASSES[1])

    def first_token(self) -> Tensor:
        """Return the encoding of the first token, which is that of every caption."""
        start = torch.full((1, 1), self.encoder.config.bos_token_id, device=self.content.weight.device)
        first: Tensor = self.encoder(input_ids=start).last_hidden_state[0, 0]
        return first

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return contents `(n, cells, numbers)` and logits of things `(n, cells, things)`."""
        cells = self.encoder(input_ids=ids).last_hidden_state[:, FIRST:]
        return self.content(cells), self.thing(cells)


def cells_of(latents: Tensor) -> Tensor:
    """Return latents `(n, channels, height, width)` as `(n, cells, numbers)`, row after row."""
    count, channels, height, width = latents.shape
    tall, wide = height // GRID, width // GRID
    split = latents.reshape(count, channels, GRID, tall, GRID, wide)
    return split.permute(0, 2, 4, 1, 3, 5).reshape(count, GRID**2, channels * tall * wide)


def taught_places(
    encoder: CLIPTextModel, vae: AutoencoderKL, tokenizer: Tokenizer, sprites: Sprites, workshop: Workshop
) -> Reader:
    """Return the text encoder whose last tokens describe the cells of square pictures, with its maps."""

    def make(rng: np.random.Generator, count: int) -> Batch:
        scenes = [sample_scene(rng) for _ in range(count // CAPTIONS)]
        drawn = [draw(scene, sprites) for scene in scenes]
        captions = [caption(scene, any_language(rng), rng) for scene in scenes * CAPTIONS]
        things = np.stack([labels_of(scene, GRID)[GRID**2 : 2 * GRID**2] for scene in scenes])
        return tensor_of(drawn), torch.from_numpy(things), token_ids(tokenizer, captions)

    def loss(reader: Reader, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        pixels, *others = batch
        things, ids = (part.to(workshop.device, non_blocking=True) for part in others)
        with torch.no_grad(), workshop.autocast():
            mean = vae.encode(in_unit(pixels, workshop)).latent_dist.mean
        wanted = cells_of(mean.float() * vae.config.scaling_factor).repeat(CAPTIONS, 1, 1)
        things = things.repeat(CAPTIONS, 1)
        with workshop.autocast():
            contents, logits = reader(ids)
        there = things > 0
        weight = torch.where(there, 1.0, GROUND_WEIGHT)
        errors = (contents.float() - wanted).square().mean(-1)
        weights = torch.ones(CLASSES[1], device=workshop.device)
        weights[0] = EMPTY_WEIGHT
        named = nn.functional.cross_entropy(logits.float().flatten(0, 1), things.flatten(), weight=weights)
        value = (weight * errors).sum() / weight.sum() + THING_PART * named
        right = (logits.argmax(-1) == things)[there].float().mean()
        return value, {
            "error in things": errors[there].mean(),
            "elsewhere": errors[~there].mean(),
            "things right": right,
        }

    reader = Reader(deepened(encoder), vae.config.latent_channels)
    return taught(reader, COURSE, workshop, make=make, loss=loss)
