"""`FlaxStableDiffusionPipeline`: pictures from prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.guide.networks import Params
from sdjax_engine.guide.prompted import GUIDANCE_SCALE, STEPS, PromptedPipeline


class FlaxStableDiffusionPipeline(PromptedPipeline):
    """Pictures from prompts, on one device or on all of them."""

    def prepare_inputs(self, prompt: str | Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the token ids (n, 77) int32 of one prompt or several."""
        return self._token_ids(prompt, self.tokenizer)

    def __call__(  # noqa: PLR0917 – the removed class's order
        self,
        prompt_ids: Any,
        params: Params,
        prng_seed: jax.Array,
        num_inference_steps: int = STEPS,
        height: int | None = None,
        width: int | None = None,
        guidance_scale: float | jax.Array = GUIDANCE_SCALE,
        latents: Any = None,
        neg_prompt_ids: Any = None,
        return_dict: bool = True,
        jit: bool = False,
    ) -> Any:
        """Paint a picture for each prompt. Returns an output with `images`, or a tuple that begins with them.

        With `jit` every array has a leading axis with one entry per device: ids (devices, n, 77), replicated
        parameters, one key per device. A new program is compiled only for new shapes, and for a guidance of
        exactly 1, which needs half the work. `latents` (n, c, h, w) replace the noise that the key gives.
        """
        inputs, form = self._asked(
            prompt_ids,
            prng_seed,
            (height, width),
            guidance_scale=guidance_scale,
            neg_prompt_ids=neg_prompt_ids,
            noise=latents,
        )
        painted = self._run(params, inputs, self._sampling(num_inference_steps), form, jit=jit)
        return self._output(painted, return_dict=return_dict)

    def _generate(  # noqa: PLR0917 – likewise
        self,
        prompt_ids: Any,
        params: Params,
        prng_seed: jax.Array,
        num_inference_steps: int = STEPS,
        height: int | None = None,
        width: int | None = None,
        guidance_scale: float | jax.Array = GUIDANCE_SCALE,
        latents: Any = None,
        neg_prompt_ids: Any = None,
    ) -> jax.Array:
        """Return the pictures (n, height, width, 3) of one device's prompts.

        Map it with `jax.pmap`. The number of steps and the size must be static.
        """
        inputs, form = self._asked(
            prompt_ids,
            prng_seed,
            (height, width),
            guidance_scale=guidance_scale,
            neg_prompt_ids=neg_prompt_ids,
            noise=latents,
        )
        return self._paint(params, inputs, self._sampling(num_inference_steps), form)
