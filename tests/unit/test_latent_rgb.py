"""The colours of previews: a linear map from latents, fitted to finished pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sdjax_engine.model.latent_rgb import MOST_PICTURES, LatentRGB

FACTOR = 8
MATRIX = np.array([[30.0, 5.0, -10.0], [0.0, 25.0, 10.0], [-8.0, 3.0, 20.0], [10.0, -12.0, 2.0]])


def picture(seed: int, *, channels: int = 4) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """Latents of 6 × 5 cells, and pixels that a linear decoder makes of them, with texture."""
    numbers = np.random.default_rng(seed)
    latents = numbers.standard_normal((6, 5, channels)).astype(np.float32)
    colours = 128 + latents[..., :4] @ MATRIX[: min(channels, 4)]
    pixels = np.repeat(np.repeat(colours, FACTOR, 0), FACTOR, 1)
    return latents, np.clip(pixels + numbers.normal(0, 3, pixels.shape), 0, 255).astype(np.uint8)


def taught(file: Path | None = None, *, pictures: int = 4) -> LatentRGB:
    latent_rgb = LatentRGB(4, file)
    for seed in range(pictures):
        latent_rgb.learn(*picture(seed))
    return latent_rgb


def test_a_preview_has_the_mean_colours_of_what_the_latents_decode_to() -> None:
    latents, pixels = picture(99)
    preview = taught().pixels(latents).astype(int)
    means = pixels.reshape(6, FACTOR, 5, FACTOR, 3).mean(axis=(1, 3))
    assert preview.shape == (6, 5, 3)
    assert np.abs(preview - means).max() < 6


def test_there_are_no_colours_before_the_first_picture() -> None:
    assert not LatentRGB(4).known
    assert taught(pictures=1).known


def test_the_map_learns_from_a_fixed_number_of_pictures_only() -> None:
    assert taught(pictures=MOST_PICTURES - 1).learns
    assert not taught(pictures=MOST_PICTURES).learns


def test_the_next_start_reads_the_colours(tmp_path: Path) -> None:
    file, (latents, _) = tmp_path / "previews" / "model.json", picture(99)
    before = taught(file).pixels(latents)
    assert np.array_equal(LatentRGB(4, file).pixels(latents), before)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"count": 1, "moments": [[1]], "products": [[1]]}', "[" * 100_000, '{"moments": NaN}'],
)
def test_a_damaged_file_is_ignored(tmp_path: Path, text: str) -> None:
    file = tmp_path / "model.json"
    file.write_text(text, encoding="utf-8")
    assert not LatentRGB(4, file).known


def test_a_file_of_another_number_of_channels_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    taught(file)
    assert not LatentRGB(16, file).known


def test_an_unwritable_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "previews").write_text("a file in the folder's place", encoding="utf-8")
    assert taught(tmp_path / "previews" / "model.json").known


def test_nan_values_are_black_and_not_learnt_from() -> None:
    latent_rgb = taught()
    latents, pixels = picture(99)
    latents[0, 0] = np.nan
    latent_rgb.learn(latents, pixels)
    preview = latent_rgb.pixels(latents)
    assert preview[0, 0].tolist() == [0, 0, 0]
    assert np.array_equal(preview[1:], taught().pixels(latents)[1:])
