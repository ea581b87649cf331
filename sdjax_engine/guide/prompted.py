"""The base of pipelines with one text encoder, as in SD 1.x and 2.x, and their output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from sdjax_engine.guide.base import FlaxDiffusionPipeline
from sdjax_engine.guide.calls import CallForm, Inputs
from sdjax_engine.guide.painting import Bound, Condition, Shown

GUIDANCE_SCALE = 7.5
STEPS = 50


@dataclass(frozen=True)
class FlaxStableDiffusionPipelineOutput:
    """Pictures, floats from 0 to 1, and whether each was unfit to show and was made black.

    `images` is (n, height, width, 3) or, with `jit`, (devices, n, height, width, 3). `nsfw_content_detected`
    is False if there is no safety checker.
    """

    images: npt.NDArray[np.float32]
    nsfw_content_detected: list[bool] | bool = False

    def __getitem__(self, index: int) -> Any:
        """Return the pictures for index 0, the verdicts for index 1."""
        return self.to_tuple()[index]

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the pictures and the verdicts."""
        return self.images, self.nsfw_content_detected


class PromptedPipeline(FlaxDiffusionPipeline):
    """A pipeline whose UNet attends to the last hidden state of one text encoder."""

    def _condition(self, bound: Bound, inputs: Inputs, form: CallForm) -> Condition:
        (encoder,) = bound.text_encoders
        ids = [inputs.neg_prompt_ids, inputs.prompt_ids] if form.guided else [inputs.prompt_ids]
        return Condition(context=encoder(jnp.concatenate(ids)).hidden)

    def _output(self, painted: Shown, *, return_dict: bool) -> Any:
        unfit = False if painted.unfit is None else np.asarray(painted.unfit).reshape(-1).tolist()
        output = FlaxStableDiffusionPipelineOutput(np.asarray(painted.images), unfit)
        return output if return_dict else output.to_tuple()
