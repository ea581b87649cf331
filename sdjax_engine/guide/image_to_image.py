"""`FlaxStableDiffusionImg2ImgPipeline`: pictures from prompts and start pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.guide.calls import CallForm, Inputs
from sdjax_engine.guide.networks import Params
from sdjax_engine.guide.painting import Bound, Start
from sdjax_engine.guide.pictures import Pictures, from_pil
from sdjax_engine.guide.prompted import GUIDANCE_SCALE, STEPS, PromptedPipeline
from sdjax_engine.guide.sampling import Sampling, encode

STRENGTH = 0.8


class FlaxStableDiffusionImg2ImgPipeline(PromptedPipeline):
    """Pictures from prompts and start pictures; `strength` says how far the result may differ."""

    def prepare_inputs(
        self, prompt: str | Sequence[str], image: Pictures
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return token ids (n, 77) int32 and pictures (n, 3, height, width) from -1 to 1.

        The pictures are resized: their sides are rounded down to multiples of 32.
        """
        return self._token_ids(prompt, self.tokenizer), from_pil(image)

    def get_timestep_start(self, num_inference_steps: int, strength: float) -> int:
        """Return how many of the first steps are left out."""
        return max(num_inference_steps - min(int(num_inference_steps * strength), num_inference_steps), 0)

    def __call__(  # noqa: PLR0917 – the removed class's order
        self,
        prompt_ids: Any,
        image: Any,
        params: Params,
        prng_seed: jax.Array,
        strength: float = STRENGTH,
        num_inference_steps: int = STEPS,
        height: int | None = None,
        width: int | None = None,
        guidance_scale: float | jax.Array = GUIDANCE_SCALE,
        noise: Any = None,
        neg_prompt_ids: Any = None,
        return_dict: bool = True,
        jit: bool = False,
    ) -> Any:
        """Paint a picture for each prompt. Returns an output with `images`, or a tuple that begins with them.

        `strength`, from 0 to 1, is the share of the steps that is run. With `jit` every array has a leading
        axis with one entry per device. Only new shapes compile a new program. Height and width default to
        the size of the pictures. `noise` (n, c, h, w) replaces the noise that the key gives.
        """
        inputs, form = self._asked(
            prompt_ids,
            prng_seed,
            size_of(image, height, width),
            guidance_scale=guidance_scale,
            neg_prompt_ids=neg_prompt_ids,
            image=image,
            noise=noise,
        )
        sampling = self._sampling(num_inference_steps, strength)
        painted = self._run(params, inputs, sampling, form, jit=jit)
        return self._output(painted, return_dict=return_dict)

    def _generate(  # noqa: PLR0917 – likewise
        self,
        prompt_ids: Any,
        image: Any,
        params: Params,
        prng_seed: jax.Array,
        start_timestep: int,
        num_inference_steps: int = STEPS,
        height: int | None = None,
        width: int | None = None,
        guidance_scale: float | jax.Array = GUIDANCE_SCALE,
        noise: Any = None,
        neg_prompt_ids: Any = None,
    ) -> jax.Array:
        """Return the pictures (n, height, width, 3) of one device's prompts, without the first steps.

        Map it with `jax.pmap`. The numbers of steps and the size must be static.
        """
        inputs, form = self._asked(
            prompt_ids,
            prng_seed,
            size_of(image, height, width),
            guidance_scale=guidance_scale,
            neg_prompt_ids=neg_prompt_ids,
            image=image,
            noise=noise,
        )
        sampling = self._sampling(num_inference_steps, strength_of(start_timestep, num_inference_steps))
        return self._paint(params, inputs, sampling, form)

    def _start(self, bound: Bound, inputs: Inputs, sampling: Sampling, form: CallForm) -> Start:
        latents = encode(bound.vae, inputs.image, inputs.key) * self.vae.config["scaling_factor"]
        noise = self._noise(inputs, form)
        return Start(sampling.init_latent_scale * latents + sampling.init_noise_sigma * noise)


def size_of(image: Any, height: int | None, width: int | None) -> tuple[int, int]:
    """Return the pictures' (height, width); raises ValueError if another size is asked for."""
    size = tuple(np.shape(image)[-2:])
    if size != (height or size[0], width or size[1]):
        raise ValueError(f"The pictures are {size}, and `height` and `width` are {height} and {width}.")
    return size


def strength_of(start_timestep: int, num_inference_steps: int) -> float:
    """Return a strength that leaves out `start_timestep` steps, half a step away from rounding errors."""
    return min(1.0, (num_inference_steps - start_timestep + 0.5) / num_inference_steps)
