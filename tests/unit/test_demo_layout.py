"""The stage of the demo's training that teaches the text encoder what each cell of a picture holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from transformers import CLIPTextConfig, CLIPTextModel

from sdjax_engine.demo.captions import caption
from sdjax_engine.demo.objects import LANGUAGES
from sdjax_engine.demo.scenes import Scene, Thing, sample_scene
from sdjax_engine.demo.training.denoiser import build_unet
from sdjax_engine.demo.training.layout import FIRST, GRID, LAYERS, Reader, cells_of, deepened
from sdjax_engine.demo.training.routes import HANDED, Routes, cells, hand_contents, handed
from sdjax_engine.demo.training.text import LENGTH, WIDTH, labels_of, token_ids, write_tokenizer


def test_new_layers_change_no_answer_of_the_text_encoder_before_they_are_trained() -> None:
    config = CLIPTextConfig(
        vocab_size=50, hidden_size=WIDTH, intermediate_size=WIDTH, num_hidden_layers=2, num_attention_heads=6
    )
    encoder = CLIPTextModel(config).eval()
    deeper = deepened(encoder).eval()
    assert deeper.config.num_hidden_layers == LAYERS > 2
    ids = torch.randint(0, 50, (2, LENGTH))
    with torch.no_grad():
        answers = [each(input_ids=ids).last_hidden_state for each in (encoder, deeper)]
    torch.testing.assert_close(*answers)
    again = deepened(encoder).state_dict()
    assert all(torch.equal(again[name], value) for name, value in deeper.state_dict().items())


def test_a_cell_of_the_latents_and_its_label_are_the_same_place() -> None:
    scene = Scene(things=(Thing(name="cat"), Thing(name="dog")), relation="left of")
    things = labels_of(scene, GRID)[GRID**2 : 2 * GRID**2]
    (cat,), (dog,) = ({*things[cells]} for cells in _halves(things))
    side = 4 * GRID
    latents = torch.zeros(1, 2, side, side)
    latents[:, :, :, : side // 2], latents[:, :, :, side // 2 :] = float(cat), float(dog)
    held = cells_of(latents)
    assert held.shape == (1, GRID**2, 2 * 4 * 4)
    there = things > 0
    assert (held[0, there] == torch.from_numpy(things[there, None]).float()).all()


def _halves(things: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which cells with a thing lie in the left half, and which in the right half."""
    left = np.arange(GRID**2) % GRID < GRID // 2
    return (things > 0) & left, (things > 0) & ~left


def test_no_caption_reaches_the_tokens_that_hold_the_cells(tmp_path: Path) -> None:
    tokenizer = write_tokenizer(tmp_path)
    rng = np.random.default_rng(3)
    captions = [caption(sample_scene(rng), language, rng) for language in LANGUAGES for _ in range(500)]
    assert (token_ids(tokenizer, captions)[:, FIRST:] == tokenizer.end_id).all()


def test_each_place_is_handed_what_the_token_of_its_cell_says_of_it() -> None:
    torch.manual_seed(0)
    config = CLIPTextConfig(
        vocab_size=50,
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=6,
        bos_token_id=0,
    )
    reader = Reader(CLIPTextModel(config), channels=4).eval()
    unet = build_unet()
    hand_contents(unet, reader)
    Routes(unet, given=True)
    attention = unet.get_submodule(f"{HANDED}.transformer_blocks.0.attn2")
    said = torch.randn(1, LENGTH, WIDTH)
    said[:, 0] = reader.first_token()
    latents = torch.zeros(1, 4, 20, 20)
    with torch.no_grad():
        unet(latents, 10, said)
        seen = attention(torch.zeros(1, 400, 64), encoder_hidden_states=said)
        contents = reader.content(said[:, FIRST:]) - reader.content.bias
    directions = attention.to_out[0].weight[:, :4]
    found = (seen[0] @ directions / directions.square().sum(0)).unflatten(0, (20, 20))
    first = said[0, 0]
    of_first = reader.content.weight @ first / first.square().sum()
    contents = contents - (said[:, FIRST:] @ first)[..., None] * of_first
    assert torch.allclose(cells_of(found.permute(2, 0, 1)[None]), contents, atol=1e-4)


def test_the_middle_of_a_longer_picture_looks_where_a_square_one_does() -> None:
    square, wide, tall = (
        torch.stack(handed(*size)).unflatten(1, size) for size in ((20, 20), (20, 30), (30, 20))
    )
    assert torch.equal(wide[:, :, 5:25], square)
    assert torch.equal(tall[:, 5:25], square)
    assert torch.equal(wide[:, :, :5], square[:, :, :1].expand(-1, -1, 5))
    tokens, _ = cells(25, 20, 20)
    assert tokens.tolist() == list(range(FIRST, LENGTH))
