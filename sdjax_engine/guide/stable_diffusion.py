"""The pipelines with one text encoder, as in SD 1.x and 2.x, and their output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from sdjax_engine.guide.base import FlaxDiffusionPipeline
from sdjax_engine.guide.networks import Params
from sdjax_engine.guide.painting import (
    Bound,
    CallForm,
    Condition,
    Inputs,
    Sampling,
    Shown,
    Start,
    channels_last,
    encode,
)
from sdjax_engine.guide.pictures import Pictures, from_pil, mask_from_pil

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
            prompt_ids, prng_seed, (height, width), guidance_scale, neg_prompt_ids, noise=latents
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
            prompt_ids, prng_seed, (height, width), guidance_scale, neg_prompt_ids, noise=latents
        )
        return self._paint(params, inputs, self._sampling(num_inference_steps), form)


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
        size = size_of(image, height, width)
        inputs, form = self._asked(
            prompt_ids, prng_seed, size, guidance_scale, neg_prompt_ids, image=image, noise=noise
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
        size = size_of(image, height, width)
        inputs, form = self._asked(
            prompt_ids, prng_seed, size, guidance_scale, neg_prompt_ids, image=image, noise=noise
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
        size, arrays = size_of(masked_image, height, width), {"image": masked_image, "mask": mask}
        inputs, form = self._asked(
            prompt_ids, prng_seed, size, guidance_scale, neg_prompt_ids, noise=latents, **arrays
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
        size, arrays = size_of(masked_image, height, width), {"image": masked_image, "mask": mask}
        inputs, form = self._asked(
            prompt_ids, prng_seed, size, guidance_scale, neg_prompt_ids, noise=latents, **arrays
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
