"""A picture classifier on the devices: one compiled program for the pictures of all models and sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
from PIL import Image as Pictures

from sdjax_engine.compiling.compiler import Compiler, Program, code_memory, working_memory
from sdjax_engine.compiling.per_device import Shares, call_on
from sdjax_engine.denoising.traced import classify
from sdjax_engine.errors import PaintingFailed
from sdjax_engine.memory import devices
from sdjax_engine.memory.devices import BY_SEAT, REPLICATED
from sdjax_engine.memory.residency import Owner
from sdjax_engine.models.attention_kernels import found_backend
from sdjax_engine.models.pixels import ViTPreprocessing
from sdjax_engine.request import PictureScores
from sdjax_engine.weights.companions import LoadedClassifier


@dataclass(frozen=True, kw_only=True, eq=False)
class PictureClassifier:
    """A classifier from `source` whose parameters stay on the devices.

    `queue` is called by the thread that owns the devices, the other methods by any.
    """

    source: str
    loaded: LoadedClassifier
    program: Program = field(repr=False)

    @property
    def preprocessing(self) -> ViTPreprocessing:
        """How pictures are made ready for it."""
        return self.loaded.preprocessing

    @property
    def key(self) -> object:
        """What programs that make pictures ready for it depend on, as plain data."""
        return repr(self.preprocessing)

    @property
    def memory(self) -> int:
        """The bytes of each device for its parameters and its program."""
        return self.loaded.memory + working_memory(self.program) + code_memory(self.program)

    def queue(self, inputs: Shares) -> Shares:
        """Queue the program on the devices of `inputs` (1, h, w, 3); returns probabilities (1, labels)."""
        return call_on(self.program, list(inputs), self.loaded.component.parameters, inputs)

    def read(self, probabilities: npt.NDArray[np.float32]) -> PictureScores:
        """Return one row of probabilities as scores; raises PaintingFailed if any is not finite.

        Scores are compared with a threshold: with NaN as its score, a picture would count as harmless.
        """
        if not np.isfinite(probabilities).all():
            raise PaintingFailed(
                "The picture classifier came to values that are no numbers: its files may be broken, and no "
                "picture is shown unjudged."
            )
        return PictureScores(labels=self.loaded.labels, probabilities=tuple(map(float, probabilities)))

    def judge(self, pixels: npt.NDArray[np.uint8], owner: Owner) -> PictureScores:
        """Judge a picture (height, width, 3) of any size; waits for the devices; raises as `read` does."""
        inputs = Shares({0: host_pixels(pixels, self.preprocessing)[None]})
        judged = owner.do(partial(self.queue, inputs))
        return self.read(owner.wait_for(partial(np.asarray, judged[0]))[0])


def compile_classifier(name: str, loaded: LoadedClassifier, compiler: Compiler) -> PictureClassifier:
    """Return a classifier; its program: (parameters, pictures made ready) → probabilities of the labels."""
    count, mesh = devices.device_count(compiler.mesh), compiler.mesh
    component = loaded.component
    program = compiler.compile(
        f"{name} classify",
        partial(classify, component.blueprint),
        component.parameters,
        devices.spread_shape((count, *loaded.preprocessing.size, 3), np.float32, mesh),
        specs=(REPLICATED, BY_SEAT),
        key=[component.config, found_backend().key],
        apart=True,
        retry_shortage=True,
    )
    return PictureClassifier(source=name, loaded=loaded, program=program)


def host_pixels(pixels: npt.NDArray[np.uint8], preprocessing: ViTPreprocessing) -> npt.NDArray[np.float32]:
    """Return a picture (height, width, 3) made ready on the host, by Pillow itself."""
    height, width = preprocessing.size
    picture = Pictures.fromarray(pixels).resize((width, height), Pictures.Resampling(preprocessing.resample))
    mean, std = (np.asarray(each, np.float32) for each in (preprocessing.mean, preprocessing.std))
    ready: npt.NDArray[np.float32] = (np.asarray(picture, np.float32) / np.float32(255) - mean) / std
    return ready
