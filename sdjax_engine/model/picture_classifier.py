"""A picture classifier on the devices: one compiled program for the pictures of all models and sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh
from PIL import Image as Pictures

from sdjax_engine.compiling.compiler import Compiler, Program, working_memory
from sdjax_engine.denoising import judging
from sdjax_engine.memory import devices
from sdjax_engine.memory.devices import BY_SEAT, REPLICATED
from sdjax_engine.models.vit_pixels import ViTPreprocessing
from sdjax_engine.scores import PictureScores
from sdjax_engine.weights.picture_classifier import LoadedClassifier

Call = Callable[..., Any]
"""Calls a program with arguments, in this thread or in another."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PictureClassifier:
    """A classifier whose parameters stay on the devices; every method may be called from any thread."""

    loaded: LoadedClassifier
    program: Program = field(repr=False)
    mesh: Mesh = field(repr=False)

    @property
    def preprocessing(self) -> ViTPreprocessing:
        """How pictures are made ready for it."""
        return self.loaded.preprocessing

    @property
    def facts(self) -> object:
        """What programs that make pictures ready for it depend on, as plain data."""
        return repr(self.preprocessing)

    @property
    def memory(self) -> int:
        """The bytes of each device for its parameters and its program."""
        parameters = self.loaded.component.parameters.values()
        return sum(array.nbytes for array in parameters) + working_memory(self.program)

    def queue(self, call: Call, seen: jax.Array | npt.NDArray[np.float32], present: Any) -> jax.Array:
        """Queue the program through `call`; probabilities (devices, labels) of `seen` (devices, h, w, 3)."""
        parameters = self.loaded.component.parameters
        return cast("jax.Array", call(self.program, parameters, seen, present))

    def read(self, probabilities: npt.NDArray[np.float32]) -> PictureScores:
        """Return what one row of probabilities says."""
        return PictureScores(labels=self.loaded.labels, probabilities=tuple(map(float, probabilities)))

    def judge(self, pixels: npt.NDArray[np.uint8]) -> PictureScores:
        """Judge a picture (height, width, 3) of any size; waits for the devices."""
        count = devices.device_count(self.mesh)
        seen = np.zeros((count, *self.preprocessing.size, 3), np.float32)
        seen[0] = host_pixels(pixels, self.preprocessing)
        present = np.zeros(count, np.bool_)
        present[0] = True
        found = self.queue(lambda program, *arguments: program(*arguments), seen, present)
        return self.read(np.asarray(found)[0])


def compile_classifier(name: str, loaded: LoadedClassifier, compiler: Compiler) -> PictureClassifier:
    """(parameters, pictures made ready, present) → probabilities of the labels."""
    count, mesh = devices.device_count(compiler.mesh), compiler.mesh
    component, labels = loaded.component, len(loaded.labels)
    program = compiler.compile(
        f"{name} classify",
        partial(judging.classify, component.blueprint, labels),
        component.parameters,
        devices.spread_shape((count, *loaded.preprocessing.size, 3), np.float32, mesh),
        devices.spread_shape((count,), np.bool_, mesh),
        specs=(REPLICATED, BY_SEAT, BY_SEAT),
        facts=component.config,
        retry_shortage=True,
    )
    return PictureClassifier(loaded=loaded, program=program, mesh=mesh)


def host_pixels(pixels: npt.NDArray[np.uint8], preprocessing: ViTPreprocessing) -> npt.NDArray[np.float32]:
    """Return a picture (height, width, 3) made ready on the host, by Pillow itself."""
    height, width = preprocessing.size
    picture = Pictures.fromarray(pixels).resize((width, height), Pictures.Resampling(preprocessing.resample))
    mean, std = (np.asarray(each, np.float32) for each in (preprocessing.mean, preprocessing.std))
    ready: npt.NDArray[np.float32] = (np.asarray(picture, np.float32) / np.float32(255) - mean) / std
    return ready
