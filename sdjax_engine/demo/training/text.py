"""The demo checkpoint's tokenizer and text encoder, and the encoder's own training.

The text encoder is trained before the denoiser: a small temporary head must predict, from the encoded caption
alone, the colour and the shape in each cell of a coarse grid over the picture. The encoding then contains the
place of each thing, and the denoiser learns faster.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from sdjax_engine.demo.scenes import COLOURS, Scene, sample_scene, vary_caption
from sdjax_engine.demo.silhouettes import SHAPES
from sdjax_engine.demo.training.schedule import OneCycle

START, END = "<|startoftext|>", "<|endoftext|>"
LENGTH = 77
GRID = 8
WIDTH = 128
LONGEST_CAPTION = 28

_COLOUR_NAMES, _SHAPE_NAMES = list(COLOURS), list(SHAPES)


def write_tokenizer(folder: Path, *, seed: int = 0) -> CLIPTokenizer:
    """Train a byte-level BPE like CLIP's on random captions, and write its files to `folder`."""
    rng = np.random.default_rng(seed)
    corpus = [vary_caption(sample_scene(rng), rng) for _ in range(4000)]
    bpe = Tokenizer(models.BPE(end_of_word_suffix="</w>", continuing_subword_prefix=""))
    bpe.normalizer = normalizers.Lowercase()
    bpe.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    bpe.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1000, end_of_word_suffix="</w>"))
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
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *(" ".join(pair) for pair in merges), ""]))
    settings = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": LENGTH,
        "bos_token": START,
        "eos_token": END,
        "unk_token": END,
        "pad_token": END,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    return CLIPTokenizer.from_pretrained(folder)


def token_ids(tokenizer: CLIPTokenizer, captions: list[str]) -> Tensor:
    """Return token ids as in the pipeline: int64 `(n, 77)`, padded with the end token."""
    encoded = tokenizer(
        captions, padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt"
    )
    return encoded.input_ids


def build_encoder(tokenizer: CLIPTokenizer) -> CLIPTextModel:
    """Return the untrained text encoder: three causal layers of width 128."""
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=LENGTH,
        hidden_act="quick_gelu",
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    encoder = CLIPTextModel(config)
    for module in encoder.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
    return encoder


def cell_labels(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Return the colour and shape of each cell of an 8×8 grid over the picture; shape 0 is the background."""
    centres = (np.arange(GRID) + 0.5) / GRID
    colour = np.full((GRID, GRID), _COLOUR_NAMES.index(scene.background))
    shape = np.zeros((GRID, GRID), int)
    for thing, (x, y), radius in zip(scene.things, scene.places, scene.radii, strict=True):
        inside = np.hypot(centres[None, :] - x, centres[:, None] - y) < max(radius, 0.12)
        colour[inside] = _COLOUR_NAMES.index(thing.colour)
        shape[inside] = 1 + _SHAPE_NAMES.index(thing.shape)
    return colour.ravel(), shape.ravel()


class ReadingRound(nn.Module):
    """One cross-attention of the cells to the encoded caption, then a small network per cell."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention, self.norm_network = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.network = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor, encoded: Tensor, padding: Tensor) -> Tensor:
        read, _ = self.attention(
            self.norm_attention(x), encoded, encoded, key_padding_mask=padding, need_weights=False
        )
        x = x + read
        return x + self.network(self.norm_network(x))


class GridReader(nn.Module):
    """Predicts colour and shape of every cell from the encoded caption: two rounds, then two classifiers."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(GRID * GRID, WIDTH) * 0.1)
        self.rounds = nn.ModuleList(ReadingRound() for _ in range(2))
        self.colour = nn.Linear(WIDTH, len(_COLOUR_NAMES))
        self.shape = nn.Linear(WIDTH, 1 + len(_SHAPE_NAMES))

    def forward(self, encoded: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        x = self.queries.expand(len(encoded), -1, -1)
        for layer in self.rounds:
            x = layer(x, encoded, padding)
        return self.colour(x), self.shape(x)


def school(
    encoder: CLIPTextModel, tokenizer: CLIPTokenizer, *, steps: int, batch: int = 64, seed: int = 1
) -> None:
    """Train the encoder in place to encode which thing is in which cell."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    reader = GridReader()
    optimiser = torch.optim.AdamW([*encoder.parameters(), *reader.parameters()], lr=1e-3, weight_decay=1e-3)
    schedule = OneCycle(optimiser)
    start = time.monotonic()
    for step in range(1, steps + 1):
        schedule.set(step / steps)
        scenes = [sample_scene(rng) for _ in range(batch)]
        ids = token_ids(tokenizer, [vary_caption(scene, rng) for scene in scenes])[:, :LONGEST_CAPTION]
        colours, shapes = (
            torch.from_numpy(np.stack(labels)) for labels in zip(*map(cell_labels, scenes), strict=True)
        )
        ended = (ids == tokenizer.eos_token_id).cumsum(1) > 1
        with torch.autocast("cpu", torch.bfloat16):
            colour_logits, shape_logits = reader(encoder(input_ids=ids).last_hidden_state, ended)
        loss = nn.functional.cross_entropy(colour_logits.float().flatten(0, 1), colours.flatten())
        loss = loss + nn.functional.cross_entropy(shape_logits.float().flatten(0, 1), shapes.flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimiser.step()
        if step % 100 == 0:
            right = (colour_logits.argmax(-1) == colours)[shapes > 0].float().mean().item()
            line = {"school": step, "loss": round(loss.item(), 4), "colour of things right": round(right, 4)}
            print(json.dumps(line | {"s/step": round((time.monotonic() - start) / step, 3)}), flush=True)
