"""Folders that are no picture classifier: each is refused in one sentence that says what to change."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from checkpoints import configure, make_tiny_classifier
from safetensors.numpy import load_file, save_file

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights.companions import LoadedClassifier, labels_at, load_picture_classifier

WEIGHTS = "model.safetensors"
ANY = "vit.encoder.layer.0.attention.attention.query.weight"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_classifier(tmp_path_factory.mktemp("classifier"))


def load(source: Path | str, cache_dir: Path | None = None) -> LoadedClassifier:
    return load_picture_classifier(str(source), dtype="float32", put=jax.device_put, cache_dir=cache_dir)


configured, process = (partial(configure, f"{name}config.json") for name in ("", "preprocessor_"))


def without_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    del tensors[ANY]
    save_file(tensors, folder / WEIGHTS)


def add_a_pooler(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS) | {"vit.pooler.dense.bias": np.zeros(32, np.float32)}
    save_file(tensors, folder / WEIGHTS)


REFUSED: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "another class": (configured(architectures=["ViTModel"]), ("ViTModel", "ViTForImageClassification")),
    "no class": (configured(architectures=None), ("None", "ViTForImageClassification")),
    "another kind of model": (configured(model_type="beit"), ("model_type", "beit")),
    "several labels at once": (
        configured(problem_type="multi_label_classification"),
        ("problem_type", "multi_label_classification"),
    ),
    "no labels": (configured(id2label={}), ("id2label",)),
    "one label": (configured(id2label={"0": "all"}), ("id2label",)),
    "labels with a gap": (configured(id2label={"0": "a", "2": "b"}), ("id2label",)),
    "a label twice": (configured(id2label={"0": "a", "1": "a"}), ("id2label",)),
    "labels that are no object": (configured(id2label=["a", "b"]), ("id2label",)),
    "more labels than outputs": (configured(id2label={str(n): str(n) for n in range(4)}), ("wrong shape",)),
    "an oblong picture": (configured(image_size=[32, 48]), ("image_size",)),
    "patches that do not fit": (configured(patch_size=7), ("32", "7 patches")),
    "a million layers": (configured(num_hidden_layers=10**6), ("256 at most",)),
    "no layers": (configured(num_hidden_layers=0), ("num_hidden_layers",)),
    "heads that do not fit": (configured(num_attention_heads=5), ("5 heads",)),
    "an unknown activation": (configured(hidden_act="sine"), ("sine",)),
    "grey pictures": (configured(num_channels=1), ("num_channels",)),
    "pictures of another size": (process(size={"height": 64, "width": 64}), ("64x64", "image_size=32")),
    "a size by its shortest edge": (process(size={"shortest_edge": 32}), ("preprocessor_config.json",)),
    "another filter": (process(resample=0), ("resample",)),
    "no normalising": (process(do_normalize=False), ("do_normalize",)),
    "a crop": (process(do_center_crop=True), ("do_center_crop",)),
    "a spread of zero": (process(image_std=[0.5, 0, 0.5]), ("image_std",)),
    "no configuration": (lambda folder: (folder / "config.json").unlink(), ("config.json",)),
    "no settings of pictures": (
        lambda folder: (folder / "preprocessor_config.json").unlink(),
        ("preprocessor_config.json",),
    ),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), (WEIGHTS,)),
    "a pickle": (lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin"), ("pickled",)),
    "a tensor less": (without_a_tensor, ("1 missing", ANY)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said_in_one_sentence(name: str, folder: Path) -> None:
    spoil, words = REFUSED[name]
    spoil(folder)
    with pytest.raises(UnreadableCheckpoint) as caught:
        load(folder)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert all(word in sentence for word in words), sentence


def test_what_is_not_there_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"There is no folder .*config\.json.* or a hub id"):
        load(tmp_path / "nowhere")


def test_it_is_read_the_same_from_the_cache_and_with_a_pooler_that_is_not_used(
    folder: Path, tmp_path: Path
) -> None:
    plain = load(folder)
    add_a_pooler(folder)
    for each in (load(folder), load(folder, tmp_path / "cache"), load(folder, tmp_path / "cache")):
        assert each.labels == plain.labels == labels_at(str(folder)) == ("drawing", "bare", "gore")
        assert each.component.parameters.keys() == plain.component.parameters.keys()
        for key, array in plain.component.parameters.items():
            np.testing.assert_array_equal(np.asarray(each.component.parameters[key]), np.asarray(array))


def test_settings_of_pictures_of_any_age_are_read(folder: Path) -> None:
    process(size=32, feature_extractor_type="ViTFeatureExtractor")(folder)
    assert load(folder).preprocessing.size == (32, 32)
