"""A text is encoded once and kept, on any device that encodes it and any device that needs it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, cast

import jax
import numpy as np
import pytest
from engines import like

from sdjax_engine.families.stable_diffusion.text import Encoding
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.model.loaded import EncodingCache, LoadedModel, text_arrays
from sdjax_engine.model.prepare import Text
from sdjax_engine.request import Lane


class Counted:
    """The model's own program, and the number of its calls."""

    def __init__(self, model: LoadedModel) -> None:
        self.program = model.encodings._encode
        self.times = 0

    def __call__(self, numbers: Collection[int], parameters: Any, *text: jax.Array) -> Mapping[int, Encoding]:
        self.times += 1
        return self.program(numbers, parameters, *text)


@pytest.fixture
def counted(model: LoadedModel) -> Counted:
    return Counted(model)


def arrays_of(model: LoadedModel) -> Any:
    return partial(text_arrays, model.networks.texts.tokens, 0)


class Cache:
    """A cache over the counted program, given the model's parameters."""

    def __init__(self, model: LoadedModel, counted: Counted, **how: Any) -> None:
        self._parameters, self._mesh = model.texts_on_devices, model.mesh
        self._cache = EncodingCache(model.mesh, counted, arrays=arrays_of(model), **how)

    def gather(self, texts: Sequence[Text]) -> Encoding:
        shares = self._cache.gather(self._parameters, dict(enumerate(texts)))
        return cast("Encoding", shares.together(self._mesh))


def text(model: LoadedModel, prompt: str) -> Text:
    return model.prepare(like(prompt=prompt)).texts[1]


def test_each_text_is_encoded_once_and_the_same_on_every_device(model: LoadedModel, counted: Counted) -> None:
    encodings = Cache(model, counted)
    star, moon = text(model, "a star"), text(model, "a moon")
    together = encodings.gather([star, moon])
    swapped = encodings.gather([moon, star])
    alone = encodings.gather([star, star])
    assert counted.times == 1
    for here, there, both in zip(*map(jax.tree.leaves, (together, swapped, alone)), strict=True):
        np.testing.assert_array_equal(np.asarray(here), np.asarray(there)[::-1])
        np.testing.assert_array_equal(np.asarray(both), np.asarray(here)[[0, 0]])
    assert not np.array_equal(*np.asarray(together.hidden))


def test_only_so_many_texts_are_kept(model: LoadedModel, counted: Counted) -> None:
    encodings = Cache(model, counted, most_texts=2)
    star, moon, heart = (text(model, f"a {thing}") for thing in ("star", "moon", "heart"))
    encodings.gather([star, moon])
    encodings.gather([star, heart])  # the moon was used longest ago
    encodings.gather([star, heart])
    assert counted.times == 2
    encodings.gather([moon, moon])
    assert counted.times == 3


def test_only_as_many_tokens_count_as_the_text_has_chunks(model: LoadedModel, counted: Counted) -> None:
    lengths = Cache(model, counted).gather([text(model, "a star"), text(model, "a star " * 100)]).length
    assert np.asarray(lengths).tolist() == [77, 231]


def test_a_thread_that_is_held_up_in_the_cache_holds_up_no_other(model: LoadedModel) -> None:
    """The first thread may be abandoned; its successor uses the same cache, which has evicted since."""
    hanging, let_go, program = threading.Event(), threading.Event(), model.encodings._encode

    def hang_once(numbers: Collection[int], parameters: Any, *arrays: jax.Array) -> Mapping[int, Encoding]:
        if not hanging.is_set():
            hanging.set()
            assert let_go.wait(60.0)
        return program(numbers, parameters, *arrays)

    parameters = model.texts_on_devices
    cache = EncodingCache(model.mesh, hang_once, arrays=arrays_of(model), most_texts=1)
    star, moon = text(model, "a star"), text(model, "a moon")
    late: list[Mapping[int, Encoding]] = []
    stars, moons = {0: star, 1: star}, {0: moon, 1: moon}
    abandoned = threading.Thread(target=lambda: late.append(cache.gather(parameters, stars)))
    abandoned.start()
    assert hanging.wait(60.0)
    expected = cache.gather(parameters, stars)
    cache.gather(parameters, moons)
    let_go.set()
    abandoned.join(60.0)
    for device, encoding in expected.items():
        np.testing.assert_array_equal(np.asarray(late[0][device].hidden), np.asarray(encoding.hidden))


def test_a_lane_that_is_reset_forgets_texts_that_failed_work_may_have_encoded(
    model: LoadedModel, device_lanes: dict[Lane, DeviceLane]
) -> None:
    star = text(model, "a star")
    before = np.asarray(model.encodings.gather(model.texts_on_devices, {0: star})[0].hidden)
    assert star in model.encodings._encodings
    next(iter(device_lanes.values())).reset()
    assert not model.encodings._encodings
    after = np.asarray(model.encodings.gather(model.texts_on_devices, {0: star})[0].hidden)
    np.testing.assert_array_equal(before, after)
