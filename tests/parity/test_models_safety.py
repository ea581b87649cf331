"""The safety checker and its preprocessing against the reference's on torch; `-s` shows the figures."""

from __future__ import annotations

import builtins
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
from checkpoints import VISION, build_safety_checker
from diffusers.pipelines.stable_diffusion import safety_checker as reference
from networks import Array, Filled, channels_first, noise
from PIL import Image

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models.clip import (
    Scores,
    StableDiffusionSafetyChecker,
    adjusted,
    flagged,
)
from sdjax_engine.models.config import settle_safety_checker_config
from sdjax_engine.models.pixels import Preprocessing, clip_pixels, settle_preprocessing

pytestmark = pytest.mark.parity

CONFIG = {"vision_config": VISION, "projection_dim": 16}
BOUNDS = {"float32": 1e-5, "bfloat16": 2e-2}
SIZES = ((512, 512), (96, 160), (301, 224), (64, 64))
STD = np.array(Preprocessing().std, np.float32)


class Watched:
    """The reference's checker, with the scores that its loop computes, before they are rounded."""

    def __init__(self, checker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._checker = checker
        self._found: list[float] = []
        monkeypatch.setattr(reference, "round", self._round, raising=False)

    def __call__(self, pixels: Array) -> tuple[Array, Array, list[bool]]:
        """Return the scores of concepts (n, 17) and of special care (n, 3), and the verdicts on `pixels`."""
        self._found.clear()
        _, verdicts = self._checker(channels_first(pixels), np.zeros((len(pixels), 1, 1, 3)))
        scores = np.array(self._found, np.float32).reshape(len(pixels), 3 + 17)
        return scores[:, 3:], scores[:, :3], verdicts

    def _round(self, score: float, digits: int) -> float:
        self._found.append(score)
        return builtins.round(score, digits)


@pytest.mark.parametrize("dtype", BOUNDS)
def test_scores_and_verdicts_are_the_references(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checker = build_safety_checker({}, seed=0)["safety_checker"]
    pixels = noise(6, 224, 224, 3)
    concepts, special_care, verdicts = Watched(checker, monkeypatch)(pixels)

    ours = Filled(StableDiffusionSafetyChecker, CONFIG, checker, dtype=dtype)(pixels)

    difference = max(np.abs(ours.concepts - concepts).max(), np.abs(ours.special_care - special_care).max())
    print(f"\nsafety checker, {dtype}: scores differ by at most {difference:.1e}")
    assert difference <= BOUNDS[dtype]
    assert flagged(ours).tolist() == verdicts


@pytest.mark.parametrize(("threshold", "verdict"), [(-1.0, True), (1.0, False)])
def test_thresholds_decide(threshold: float, verdict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    checker = build_safety_checker({"threshold": threshold}, seed=0)["safety_checker"]
    pixels = noise(1, 224, 224, 3)

    ours = Filled(StableDiffusionSafetyChecker, CONFIG, checker)(pixels)

    assert flagged(ours).tolist() == Watched(checker, monkeypatch)(pixels)[2] == [verdict]


def test_a_special_concept_raises_the_later_scores() -> None:
    concepts = np.array([[-0.009, -0.02], [-0.009, -0.02], [0.0004, -1.0]], np.float32)
    special_care = np.array([[-0.5, 0.2, -0.005], [-0.5, -0.5, -0.005], [0.0004, -1, -1]], np.float32)

    scores = adjusted(Scores(concepts, special_care))

    np.testing.assert_allclose(scores.special_care[0], [-0.5, 0.2, 0.005], atol=1e-7)
    np.testing.assert_allclose(scores.special_care[1:], special_care[1:], atol=1e-7)
    np.testing.assert_allclose(scores.concepts, concepts + np.float32([[0.01], [0], [0]]), atol=1e-7)
    assert flagged(scores).tolist() == [True, False, False]


def picture(height: int, width: int) -> npt.NDArray[np.uint8]:
    """Noise on the left half, a smooth picture with hard edges on the right."""
    rng = np.random.default_rng(height * width)
    rough = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(rough[:8, :8]).resize((width, height), Image.Resampling.BICUBIC))
    return np.where(np.arange(width)[None, :, None] < width // 2, rough, smooth)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_pictures_are_preprocessed_as_in_the_reference(height: int, width: int) -> None:
    processor = build_safety_checker({}, seed=0)["feature_extractor"]
    pixels = picture(height, width)
    theirs = processor(Image.fromarray(pixels), return_tensors="np")["pixel_values"].transpose(0, 2, 3, 1)

    prepare = jax.jit(clip_pixels, static_argnums=1)
    ours = prepare(pixels[None].astype(np.float32) / 255, settle_preprocessing(processor.to_dict()))

    difference = np.abs(np.asarray(ours) - theirs) * STD * 255
    differing = (difference > 0.5).mean()
    print(f"\n{width}x{height}: {differing:.2%} differ, by at most {difference.max():.0f} of 255")
    assert difference.max() < 2.5
    assert differing < 0.02


def test_old_and_new_processor_files_are_equivalent() -> None:
    old = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 224, "crop_size": 224, "resample": 3}
    new = {"size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}, "do_rescale": True}

    assert (
        settle_preprocessing(old) == settle_preprocessing(new) == settle_preprocessing({}) == Preprocessing()
    )


@pytest.mark.parametrize(
    "config",
    [
        {"do_normalize": False},
        {"resample": 2},
        {"rescale_factor": 1.0},
        {"size": {"height": 224, "width": 224}},
        {"crop_size": 225},
        {"image_mean": [0.5]},
    ],
)
def test_an_unsupported_processor_is_refused_by_name(config: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCheckpoint, match=next(iter(config))):
        settle_preprocessing(config)


def test_the_old_form_of_the_configuration_is_read() -> None:
    """Old files repeat `vision_config` as `vision_config_dict`, which takes precedence."""
    old = {"vision_config": {"hidden_size": 768}, "vision_config_dict": VISION, "projection_dim": 16}

    values = settle_safety_checker_config(old)

    assert values["vision_config"].items() >= VISION.items()
    assert settle_safety_checker_config(values) == values
