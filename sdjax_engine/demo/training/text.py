"""The demo checkpoint's tokenizer and text encoder, and the encoder's own training.

The text encoder is trained before the denoiser: a small temporary head must predict, from the encoded caption
alone, the thing in each cell of a coarse grid over the picture, the colours of shapes, the ground and the
style. The encoding then contains the place of each thing, and the denoiser learns faster. All four languages
have the same labels, so that they come to the same encodings.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers, trainers
from torch import Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel

from sdjax_engine.demo.captions import caption
from sdjax_engine.demo.objects import LANGUAGES, OBJECTS, Language
from sdjax_engine.demo.scenes import COLOURS, GROUNDS, SHAPES, STYLES, Scene, Thing, sample_scene
from sdjax_engine.demo.training.loop import Course, Workshop, taught
from sdjax_engine.prompts import Tokenizer, clean

COURSE = Course(name="text", part=0.1, pictures=320_000, batch=64, rate=8e-4, decay=0.998)
START, END = "<|startoftext|>", "<|endoftext|>"
LENGTH = 77
GRID = 8
WIDTH = 192
VOCABULARY = 3000
EMPTY_WEIGHT = 0.15
LANGUAGE_PARTS = (0.4, 0.2, 0.2, 0.2)

_COLOURS, _SHAPES = list(COLOURS), list(SHAPES)
_OBJECTS = list(OBJECTS)
_GROUNDS = [*COLOURS, *GROUNDS]
_STYLES = ["", *STYLES]
CLASSES = (len(_COLOURS) + 1, len(_OBJECTS) + len(_SHAPES) + 1)
"""The numbers of colours and of things that a cell may have; 0 is none."""


def write_tokenizer(folder: Path) -> Tokenizer:
    """Train a byte-level BPE like CLIP's on names and captions, and write its files to `folder`."""
    rng = np.random.default_rng(0)
    corpus = [name for thing in OBJECTS.values() for names in thing.names.values() for name in names * 8]
    corpus += [caption(sample_scene(rng), any_language(rng), rng) for _ in range(12_000)]
    bpe = tokenizers.Tokenizer(models.BPE(end_of_word_suffix="</w>", continuing_subword_prefix=""))
    bpe.normalizer = normalizers.Lowercase()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, end_of_word_suffix="</w>", initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    bpe.train_from_iterator(map(clean, corpus), trainer)
    merges = [tuple(pair) for pair in json.loads(bpe.to_str())["model"]["merges"]]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = (
        alphabet
        + [f"{letter}</w>" for letter in alphabet]
        + ["".join(pair) for pair in merges]
        + [START, END]
    )
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    settings = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": LENGTH,
        "bos_token": START,
        "eos_token": END,
        "unk_token": END,
        "pad_token": END,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return Tokenizer.load(folder)


def token_ids(tokenizer: Tokenizer, captions: list[str]) -> Tensor:
    """Return token ids as the engine makes them: int64 `(n, 77)`, padded with the end token."""
    return torch.from_numpy(np.stack([tokenizer.encode(each) for each in captions])).long()


def any_language(rng: np.random.Generator) -> Language:
    """Return one of the languages, English more often."""
    return LANGUAGES[int(rng.choice(len(LANGUAGES), p=LANGUAGE_PARTS))]


def build_encoder(tokenizer: Tokenizer) -> CLIPTextModel:
    """Return the untrained text encoder: four causal layers of width 192."""
    torch.manual_seed(1)
    config = CLIPTextConfig(
        vocab_size=tokenizer.size,
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=4,
        num_attention_heads=6,
        max_position_embeddings=LENGTH,
        hidden_act="quick_gelu",
        bos_token_id=tokenizer.start_id,
        eos_token_id=tokenizer.end_id,
        pad_token_id=tokenizer.end_id,
    )
    encoder = CLIPTextModel(config)
    for module in encoder.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
    return encoder


def thing_class(thing: Thing) -> int:
    """Return the number of a thing among objects and shapes; 0 is no thing."""
    return 1 + (len(_OBJECTS) + _SHAPES.index(thing.name) if thing.is_shape else _OBJECTS.index(thing.name))


def labels_of(scene: Scene, grid: int = GRID) -> np.ndarray:
    """Return the colour and the thing of each cell of a grid, and the ground and the style, int64."""
    centres = (np.arange(grid) + 0.5) / grid
    colour, thing = np.zeros((2, grid, grid), np.int64)
    for placed in scene.placed:
        x, y = placed.place
        inside = np.hypot(centres[None, :] - x, centres[:, None] - y) < max(placed.radius, 0.1)
        colour[inside] = 1 + _COLOURS.index(placed.thing.colour) if placed.thing.colour else 0
        thing[inside] = thing_class(placed.thing)
    whole = [_GROUNDS.index(scene.ground), _STYLES.index(scene.style)]
    return np.concatenate([colour.ravel(), thing.ravel(), whole])


class ReadingRound(nn.Module):
    """One cross-attention of the cells to the encoded caption, then a small network per cell."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention, self.norm_network = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 6, batch_first=True)
        self.network = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor, encoded: Tensor, padding: Tensor) -> Tensor:
        read, _ = self.attention(
            self.norm_attention(x), encoded, encoded, key_padding_mask=padding, need_weights=False
        )
        x = x + read
        read_on: Tensor = x + self.network(self.norm_network(x))
        return read_on


class School(nn.Module):
    """The text encoder and a head that predicts every cell: two rounds of reading, then classifiers."""

    def __init__(self, encoder: CLIPTextModel) -> None:
        super().__init__()
        self.encoder = encoder
        self.queries = nn.Parameter(torch.randn(GRID * GRID + 1, WIDTH) * 0.1)
        self.rounds = nn.ModuleList(ReadingRound() for _ in range(2))
        self.cells = nn.ModuleList(nn.Linear(WIDTH, count) for count in CLASSES)
        self.wholes = nn.ModuleList(nn.Linear(WIDTH, len(names)) for names in (_GROUNDS, _STYLES))

    def forward(self, ids: Tensor, ended: Tensor) -> list[Tensor]:
        """Return the logits of colours and things of the cells, and of the ground and the style."""
        encoded = self.encoder(input_ids=ids).last_hidden_state
        x = self.queries.expand(len(encoded), -1, -1)
        for layer in self.rounds:
            x = layer(x, encoded, ended)
        return [head(x[:, :-1]) for head in self.cells] + [head(x[:, -1]) for head in self.wholes]


def cell_error(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of cells, of which those with nothing count less: most have nothing."""
    weights = torch.ones(logits.shape[-1], device=logits.device)
    weights[0] = EMPTY_WEIGHT
    return nn.functional.cross_entropy(logits, labels, weight=weights)


def schooled(tokenizer: Tokenizer, workshop: Workshop) -> CLIPTextModel:
    """Return the trained text encoder."""

    def make(rng: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
        scenes = [sample_scene(rng) for _ in range(count)]
        ids = token_ids(tokenizer, [caption(scene, any_language(rng), rng) for scene in scenes])
        longest = int((ids != tokenizer.end_id).sum(1).max()) + 1
        return ids[:, :longest], torch.from_numpy(np.stack([labels_of(scene) for scene in scenes]))

    def loss(school: School, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        ids, labels = (part.to(workshop.device) for part in batch)
        ended = (ids == tokenizer.end_id).cumsum(1) > 1
        with workshop.autocast():
            colours, things, *wholes = school(ids, ended)
        cells = GRID * GRID
        found = [(colours, labels[:, :cells]), (things, labels[:, cells : 2 * cells])]
        value = sum(cell_error(x.float().flatten(0, 1), y.flatten()) for x, y in found)
        value = value + sum(
            nn.functional.cross_entropy(x.float(), labels[:, 2 * cells + i]) for i, x in enumerate(wholes)
        )
        there = labels[:, cells : 2 * cells] > 0
        right = (things.argmax(-1) == labels[:, cells : 2 * cells])[there].float().mean()
        return value, {"things right": right}

    school = taught(School(build_encoder(tokenizer)), COURSE, workshop, make=make, loss=loss)
    return school.encoder
