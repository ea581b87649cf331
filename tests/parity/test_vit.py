"""The picture classifier and its preprocessing against the reference's on torch; `-s` shows the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import make_tiny_classifier
from networks import channels_first, noise
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

from sdjax_engine.model.picture_classifier import host_pixels
from sdjax_engine.models.config import labels_of, settle_vit_config
from sdjax_engine.models.pixels import settle_vit_preprocessing, vit_pixels
from sdjax_engine.weights.companions import load_picture_classifier

pytestmark = pytest.mark.parity

NETWORKS: dict[str, dict[str, Any]] = {
    "small": {},
    "without biases of queries, keys and values": {"qkv_bias": False, "hidden_act": "relu"},
    "of true width": {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "image_size": 224,
        "patch_size": 16,
    },
    "of another shape": {"image_size": 48, "patch_size": 16, "layer_norm_eps": 1e-6, "num_hidden_layers": 3},
}
BOUNDS = {"float32": 1e-4, "bfloat16": 5e-2}
HALF_PRECISION = ("small", "of true width")
SIZES = ((64, 64), (128, 128), (96, 160), (301, 224), (512, 512), (16, 20))
BILINEAR = 2
FILTERS = [
    *((*size, BILINEAR) for size in SIZES),
    *((*size, resample) for size in ((301, 224), (16, 20)) for resample in (1, 3)),
]
"""Heights, widths and filters: each size once, and a smaller and a larger picture with each filter."""


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float32") for name in NETWORKS), *((name, "bfloat16") for name in HALF_PRECISION)],
)
def test_logits_are_the_references(name: str, dtype: str, tmp_path: Path) -> None:
    folder = make_tiny_classifier(tmp_path, **NETWORKS[name])
    reference = ViTForImageClassification.from_pretrained(folder).eval()
    loaded = load_picture_classifier(str(folder), dtype=dtype, put=jax.device_put)
    pixels = noise(2, *loaded.preprocessing.size, 3)
    with torch.no_grad():
        theirs = reference(channels_first(pixels)).logits.numpy()
    compute = jax.jit(lambda parameters, x: loaded.component.module(parameters)(x))
    ours = np.asarray(compute(loaded.component.parameters, pixels))
    difference = np.abs(ours - theirs).max()
    print(f"\nViT, {name}, {dtype}: logits differ by at most {difference:.1e} of {np.abs(theirs).max():.1f}")
    assert ours.dtype == np.float32
    assert difference <= BOUNDS[dtype] * (1 if dtype == "float32" else np.abs(theirs).max())
    assert loaded.labels == tuple(reference.config.id2label.values()) == ("drawing", "bare", "gore")


def picture(height: int, width: int) -> npt.NDArray[np.uint8]:
    """Noise on the left half, a smooth picture with hard edges on the right."""
    rng = np.random.default_rng(height * width)
    rough = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(rough[:8, :8]).resize((width, height), Image.Resampling.BICUBIC))
    return np.where(np.arange(width)[None, :, None] < width // 2, rough, smooth)


@pytest.fixture(scope="module")
def on_devices() -> Any:
    """The preprocessing on the devices, compiled once for each size and setting."""
    return jax.jit(vit_pixels, static_argnums=1)


@pytest.mark.parametrize(("height", "width", "resample"), FILTERS)
def test_pictures_are_made_ready_as_the_references_processor_does(
    height: int, width: int, resample: int, on_devices: Any
) -> None:
    """On the devices nearly all values differ by less than half a level; on the host Pillow computes them."""
    processor = ViTImageProcessorPil(size={"height": 32, "width": 32}, resample=resample)
    pixels = picture(height, width)
    theirs = processor(Image.fromarray(pixels), return_tensors="np")["pixel_values"].transpose(0, 2, 3, 1)
    preprocessing = settle_vit_preprocessing(processor.to_dict())
    ours = on_devices(pixels[None], preprocessing)
    difference = np.abs(np.asarray(ours) - theirs) * 0.5 * 255
    print(f"\n{width}x{height}, filter {resample}: {(difference > 0.5).mean():.2%} differ")
    assert difference.max() < 2.5
    assert (difference > 0.5).mean() < 0.02
    np.testing.assert_allclose(host_pixels(pixels, preprocessing), theirs[0], atol=1e-6)


def test_a_difference_of_rounding_moves_no_probability_by_a_hundredth(
    tmp_path: Path, on_devices: Any
) -> None:
    """The preprocessing on the devices and that on the host differ by one level in some values."""
    loaded = load_picture_classifier(str(make_tiny_classifier(tmp_path)), dtype="float32", put=jax.device_put)
    compute = jax.jit(lambda parameters, x: jax.nn.softmax(loaded.component.module(parameters)(x), axis=-1))
    for height, width in SIZES:
        pixels = picture(height, width)
        ready = (
            on_devices(pixels[None], loaded.preprocessing),
            host_pixels(pixels, loaded.preprocessing)[None],
        )
        ours, theirs = (compute(loaded.component.parameters, each) for each in ready)
        assert np.abs(np.asarray(ours) - np.asarray(theirs)).max() < 0.01


def test_the_library_settles_the_same_defaults() -> None:
    theirs = ViTConfig(id2label={0: "safe", 1: "unsafe"})
    ours = settle_vit_config({"id2label": {"0": "safe", "1": "unsafe"}})
    assert {key: getattr(theirs, key) for key in ours if key != "id2label"} == {
        key: value for key, value in ours.items() if key != "id2label"
    }
    assert labels_of(ours) == ("safe", "unsafe")
