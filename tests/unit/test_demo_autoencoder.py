"""The demo's autoencoder before its training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from sdjax_engine.demo.drawing import Sprites, draw
from sdjax_engine.demo.scenes import sample_scene
from sdjax_engine.demo.training.autoencoder import build, in_unit, tensor_of
from sdjax_engine.demo.training.autoencoder_start import COLOURS, HUES
from sdjax_engine.demo.training.loop import Workshop

BORDER = 2


def test_the_untrained_autoencoder_encodes_means_and_decodes_their_colours(tmp_path: Path) -> None:
    workshop = Workshop(folder=tmp_path, device=torch.device("cpu"))
    rng = np.random.default_rng(0)
    drawn = [draw(sample_scene(rng, shapes_only=True), Sprites()) for _ in range(4)]
    pictures = in_unit(tensor_of(drawn), workshop)
    means = nn.functional.avg_pool2d(pictures, 8)
    model = build().eval()
    with torch.no_grad():
        latents = model.encode(pictures).latent_dist.mean
        decoded = nn.functional.avg_pool2d(model.decode(latents).sample, 8)
    hues = torch.einsum("oi,bihw->bohw", HUES, means)
    inside = np.s_[..., BORDER:-BORDER, BORDER:-BORDER]
    assert (latents[:, :COLOURS] - hues).abs().mean() < 0.03
    assert (decoded - means)[inside].abs().mean() < 0.08
    grounds = (decoded - means)[inside].abs().amax(1).flatten(1).median(1).values
    assert (grounds < 0.12).all()
