"""The colours of previews: a linear map from latents, right from the first picture."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from sdjax_engine.demo.drawing import Sprites, draw
from sdjax_engine.demo.scenes import sample_scene
from sdjax_engine.families.stable_diffusion.latents import SDXL, STABLE_DIFFUSION, colours_of
from sdjax_engine.model.latent_rgb import coloured
from sdjax_engine.weights import load_checkpoint


def test_previews_of_the_demo_have_the_mean_colours_of_its_pictures() -> None:
    checkpoint = load_checkpoint("demo")
    vae = checkpoint.components["vae"]
    colours = colours_of(vae.config, checkpoint.index)
    assert colours is not None
    sources = [np.random.default_rng(seed) for seed in range(4)]
    size = (vae.config["sample_size"],) * 2
    drawn = [draw(sample_scene(each, shapes_only=True), Sprites(), size=size) for each in sources]
    scenes = np.stack([np.asarray(each) for each in drawn]).astype(np.float32)
    mean, _ = jax.jit(lambda pixels: vae.module().encode(pixels))(scenes / 127.5 - 1)
    latents = np.asarray(mean, np.float32) * vae.config["scaling_factor"]
    count, height, width, _ = latents.shape
    means = scenes.reshape(count, height, scenes.shape[1] // height, width, -1, 3).mean(axis=(2, 4))
    previews = np.stack([coloured(each, colours) for each in latents]).astype(float)
    assert np.abs(previews - means).mean() < 32  # four channels cannot tell all ten colours apart linearly
    likeness = np.corrcoef(previews.reshape(count, -1), means.reshape(count, -1))[:count, count:]
    others = np.where(np.eye(count, dtype=bool), -1.0, likeness).max(axis=1)
    assert (likeness.diagonal() > others + 0.1).all()


@pytest.mark.parametrize(("scaling_factor", "rows"), [(0.18215, STABLE_DIFFUSION), (0.13025, SDXL)])
def test_families_have_their_colours_and_zero_latents_are_about_grey(
    scaling_factor: float, rows: tuple[tuple[float, ...], ...]
) -> None:
    colours = colours_of({"scaling_factor": scaling_factor, "latent_channels": 4}, {})
    assert colours is not None
    assert colours.tolist() == [list(row) for row in rows]
    grey = coloured(np.zeros((2, 3, 4), np.float32), colours)
    assert grey.shape == (2, 3, 3)
    assert np.abs(grey.astype(int) - 128).max() < 15


@pytest.mark.parametrize(
    "config",
    [{"scaling_factor": 0.4, "latent_channels": 4}, {"scaling_factor": 0.18215, "latent_channels": 16}],
)
def test_an_autoencoder_that_is_not_known_has_no_colours(config: dict[str, float]) -> None:
    assert colours_of(config, {}) is None


@pytest.mark.parametrize(
    "painting",
    [
        "red",
        7,
        {},
        {"latent_rgb": None},
        {"latent_rgb": [[1, 0, 0]] * 4},
        {"latent_rgb": [[1, 0, 0]] * 4 + [[1, 0]]},
        {"latent_rgb": [[1, 0, 10**400]] * 5},
        {"latent_rgb": [[1, 0, float("inf")]] * 5},
        {"latent_rgb": [["x", 0, 0]] * 5},
    ],
)
def test_a_checkpoints_own_colours_of_another_form_are_ignored(painting: object) -> None:
    config = {"scaling_factor": 0.4, "latent_channels": 4}
    assert colours_of(config, {"_painting": painting}) is None
    assert colours_of(config, {"_painting": {"latent_rgb": [[1, 0, 0]] * 5}}) is not None


def test_latents_that_are_no_numbers_are_grey() -> None:
    colours = np.array(STABLE_DIFFUSION)
    assert (coloured(np.full((1, 1, 4), np.nan, np.float32), colours) == 128).all()
