"""What is read of a picture classifier's probabilities."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from sdjax_engine.errors import PaintingFailed
from sdjax_engine.model.picture_classifier import PictureClassifier
from sdjax_engine.models.pixels import ViTPreprocessing
from sdjax_engine.weights.companions import LoadedClassifier

NOTHING = cast("Any", None)


def classifier() -> PictureClassifier:
    loaded = LoadedClassifier(component=NOTHING, labels=("drawing", "gore"), preprocessing=ViTPreprocessing())
    return PictureClassifier(source="a folder", loaded=loaded, program=NOTHING)


def test_probabilities_have_the_labels_in_order() -> None:
    assert classifier().read(np.array([0.25, 0.75], np.float32)).by_label == {"drawing": 0.25, "gore": 0.75}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_picture_whose_probabilities_are_no_numbers_is_not_harmless(value: float) -> None:
    with pytest.raises(PaintingFailed, match="values that are no numbers"):
        classifier().read(np.array([value, 0.5], np.float32))
