"""`FlaxStableDiffusionInpaintPipeline`: repaints a part of a picture, by a UNet that sees the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from sdjax_engine.guide.calls import CallForm, Inputs
from sdjax_engine.guide.image_to_image import size_of
from sdjax_engine.guide.networks import Params
from sdjax_engine.guide.painting import Bound, Start
from sdjax_engine.guide.pictures import Pictures, from_pil, mask_from_pil
from sdjax_engine.guide.prompted import GUIDANCE_SCALE, STEPS, PromptedPipeline
from sdjax_engine.guide.sampling import Sampling, channels_last, encode


class FlaxStableDiffusionInpaintPipeline(PromptedPipeline):
    """Repaints the masked part of pictures from prompts; for inpainting checkpoints only.

    The UNet of these checkpoints takes the mask and the unmasked part as channels after the latents.
    """

    sees_a_picture: ClassVar[bool] = True

    def prepare_inputs(
        self, prompt: str | Sequence[str], image: Pictures, mask: Pictures
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return token ids (n, 77), pictures (n, 3, height, width) without the masked part, and masks.

        Masks are (n, 1, height, width): 1 is repainted (white in `mask`). All are resized:
        their sides are rounded down to multiples of 32.
        """
        masks = mask_from_pil(mask)
        return self._token_ids(prompt, self.tokenizer), from_pil(image) * (masks < 0.5), masks

    def __call__(  # noqa: PLR0917 – the removed class's order
        self,
        prompt_ids: Any,
        mask: Any,
        masked_image: Any,
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

        With `jit` every array has a leading axis with one entry per device. Height and width default to the
        size of the pictures. `latents` (n, c, h, w) replace the noise that the key gives.
        """
        inputs, form = self._asked(
            prompt_ids,
            prng_seed,
            size_of(masked_image, height, width),
            guidance_scale=guidance_scale,
            neg_prompt_ids=neg_prompt_ids,
            noise=latents,
            image=masked_image,
            mask=mask,
        )
        painted = self._run(params, inputs, self._sampling(num_inference_steps), form, jit=jit)
        return self._output(painted, return_dict=return_dict)

    def _generate(  # noqa: PLR0917 – likewise
        self,
        prompt_ids: Any,
        mask: Any,
        masked_image: Any,
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
            size_of(masked_image, height, width),
            guidance_scale=guidance_scale,
            neg_prompt_ids=neg_prompt_ids,
            noise=latents,
            image=masked_image,
            mask=mask,
        )
        return self._paint(params, inputs, self._sampling(num_inference_steps), form)

    def _start(self, bound: Bound, inputs: Inputs, sampling: Sampling, form: CallForm) -> Start:
        # The removed class drew only this noise in the networks' dtype.
        noise = self._noise(inputs, form, self.dtype)
        _, key = jax.random.split(inputs.key)
        background = encode(bound.vae, inputs.image, key) * self.vae.config["scaling_factor"]
        mask = channels_last(inputs.mask)
        small = jax.image.resize(mask, (*background.shape[:-1], mask.shape[-1]), method="nearest")
        beside = jnp.concatenate([small, background], axis=-1)
        return Start(noise * sampling.init_noise_sigma, beside)
