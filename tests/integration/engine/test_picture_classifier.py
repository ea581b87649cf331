"""A picture classifier beside a checkpoint, from the configuration to the scores of pictures."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import make_tiny_classifier
from engines import PLAIN, TINY, fingerprint, like
from PIL import Image as Pictures
from transformers import ViTForImageClassification, ViTImageProcessorPil

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.config import Dtype, EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.errors import DevicesFailed, UnreadableCheckpoint
from sdjax_engine.memory.residency import ParameterGroup, Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.model.picture_classifier import PictureClassifier
from sdjax_engine.model.pictures import fitted
from sdjax_engine.startup.companions import add_picture_classifiers
from sdjax_engine.weights.companions import LoadedClassifier

DEADLINE = 120.0
LABELS = frozenset({"drawing", "bare", "gore"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_classifier(tmp_path_factory.mktemp("classifier"))


def config_of(
    checkpoint: Path, classifier: Path, cache_dir: Path | None, labels: frozenset[str] = LABELS
) -> EngineConfig:
    spec = ModelSpec(
        offer=TINY, source=str(checkpoint), picture_classifier=str(classifier), picture_labels=labels
    )
    return EngineConfig(
        models=(spec,), cpu_devices=2, cache_dir=cache_dir, lanes=(PLAIN.lane,), start_pictures=False
    )


@pytest.fixture(scope="module")
def judging(checkpoint: Path, folder: Path, cache_dir: Path) -> Iterator[tuple[Engine, list[str]]]:
    reported: list[str] = []
    with Engine.open(config_of(checkpoint, folder, cache_dir), report=reported.append) as engine:
        yield engine, reported


def reference(folder: Path, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """The probabilities of a picture, as the reference finds them."""
    network = ViTForImageClassification.from_pretrained(folder).eval()
    shown = ViTImageProcessorPil.from_pretrained(folder)(Pictures.fromarray(pixels), return_tensors="pt")
    with torch.no_grad():
        found: npt.NDArray[np.float32] = network(shown.pixel_values).logits[0].softmax(-1).numpy()
    return found


def test_every_picture_has_the_references_probabilities_beside_others_and_alone(
    judging: tuple[Engine, list[str]], folder: Path, engine: Engine
) -> None:
    judged, reported = judging
    assert f"pictures of tiny are judged by {folder}" in reported
    assert judged.classifies_pictures("tiny")
    futures = [judged.submit(like(seed=seed)) for seed in range(5)]
    for future in futures:
        image = future.result(DEADLINE)
        assert image.classified is not None
        assert image.safety is None
        found = np.array(image.classified.probabilities)
        np.testing.assert_allclose(found, reference(folder, image.pixels), atol=0.01)
        assert image.classified.labels == ("drawing", "bare", "gore")
        assert sum(image.classified.by_label.values()) == pytest.approx(1)
    assert not engine.classifies_pictures("tiny")
    assert engine.submit(PLAIN).result(DEADLINE).classified is None


def test_a_start_picture_is_judged_by_the_engines_thread(
    judging: tuple[Engine, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, callers = PictureClassifier.queue, set[str]()

    def noted(classifier: PictureClassifier, seen: Any) -> Any:
        callers.add(threading.current_thread().name)
        return queue(classifier, seen)

    monkeypatch.setattr(PictureClassifier, "queue", noted)
    assert judging[0].judge("tiny", np.zeros((16, 16, 3), np.uint8)) is not None
    assert callers == {"sdjax-engine"}


def test_a_start_picture_is_judged_before_anything_is_painted_from_it(
    judging: tuple[Engine, list[str]], folder: Path, engine: Engine
) -> None:
    file = io.BytesIO()
    noise = np.random.default_rng(3).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Pictures.fromarray(noise).save(file, format="PNG")
    start = fitted(like(init_image=file.getvalue(), strength=0.5))
    assert start is not None
    found = judging[0].judge("tiny", start.pixels)
    assert found is not None
    np.testing.assert_allclose(found.probabilities, reference(folder, start.pixels), atol=1e-5)
    assert engine.judge("tiny", start.pixels) is None


def test_a_classifier_changes_no_picture(judging: tuple[Engine, list[str]], engine: Engine) -> None:
    with_it, without = (each.submit(PLAIN).result(DEADLINE) for each in (judging[0], engine))
    assert fingerprint(with_it) == fingerprint(without)


@pytest.mark.parametrize("labels", [frozenset({"drawing", "bare"}), LABELS | {"nothing"}])
def test_labels_without_a_level_and_levels_of_no_label_are_refused(
    labels: frozenset[str], checkpoint: Path, folder: Path
) -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"its labels are drawing, bare, gore\.$"):
        Engine.open(config_of(checkpoint, folder, None, labels), report=lambda _line: None)


def test_without_room_for_the_classifier_nothing_starts(
    checkpoint: Path, folder: Path, model: LoadedModel, compiler: Compiler
) -> None:
    narrow = Residency(compiler.mesh, 10_000)
    config = replace(config_of(checkpoint, folder, None), dtype=Dtype.FLOAT32)
    with pytest.raises(DevicesFailed, match=r"has no .* for the picture classifier"):
        add_picture_classifiers(config, {"tiny": model}, compiler, narrow)
    assert model.classifier is None


def test_a_classifier_that_cannot_be_copied_to_the_devices_gives_its_memory_back(
    checkpoint: Path, folder: Path, model: LoadedModel, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(_classifier: LoadedClassifier, _put: object) -> LoadedClassifier:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")

    monkeypatch.setattr(LoadedClassifier, "placed", run_out)
    shared = Residency(compiler.mesh)
    config = replace(config_of(checkpoint, folder, None), dtype=Dtype.FLOAT32)
    with pytest.raises(jax.errors.JaxRuntimeError):
        add_picture_classifiers(config, {"tiny": model}, compiler, shared)
    assert shared.taken == 0


def test_models_without_room_beside_the_classifier_are_evicted_before_it_comes(
    checkpoint: Path, folder: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 2**24
    narrow, order = Residency(compiler.mesh, 2 * size + 1000), list[str]()
    for name in ("other", "tiny"):
        narrow.adopt(name, {"parameter": np.zeros(size, np.uint8)})
    assert narrow.lines() == []
    evict, place = ParameterGroup.evict, LoadedClassifier.placed

    def evicted(group: ParameterGroup) -> None:
        order.append(f"{group.key.model} leaves")
        evict(group)

    def placed(classifier: LoadedClassifier, put: Any) -> LoadedClassifier:
        order.append("the classifier comes")
        return place(classifier, put)

    monkeypatch.setattr(ParameterGroup, "evict", evicted)
    monkeypatch.setattr(LoadedClassifier, "placed", placed)
    given: list[PictureClassifier] = []
    models: Any = {"tiny": SimpleNamespace(use_classifier=given.append, classifier=None)}
    config = replace(config_of(checkpoint, folder, None), dtype=Dtype.FLOAT32)
    add_picture_classifiers(config, models, compiler, narrow)
    assert order == ["other leaves", "the classifier comes"]
    assert narrow.taken == size + given[0].memory
