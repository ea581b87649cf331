"""`FlaxStableDiffusionXLPipeline`: pictures from prompts by SDXL and its descendants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from sdjax_engine.guide.base import FlaxDiffusionPipeline
from sdjax_engine.guide.networks import (
    Params,
    UnboundNetwork,
    UnboundTextEncoder,
    UnboundUNet,
    UnboundVae,
)
from sdjax_engine.guide.painting import Bound, CallForm, Condition, Inputs
from sdjax_engine.guide.schedulers import FlaxScheduler
from sdjax_engine.guide.stable_diffusion import GUIDANCE_SCALE, STEPS
from sdjax_engine.guide.tokenizer import CLIPTokenizer


@dataclass(frozen=True)
class FlaxStableDiffusionXLPipelineOutput:
    """Pictures (n, height, width, 3) from 0 to 1, or latents; with `jit`, a leading axis per device."""

    images: npt.NDArray[np.float32]

    def __getitem__(self, index: int) -> Any:
        """Return the pictures for index 0."""
        return (self.images,)[index]


class FlaxStableDiffusionXLPipeline(FlaxDiffusionPipeline):
    """Pictures from prompts by a UNet that takes two encodings of the prompt, and the picture's size."""

    text_encoder_names: ClassVar[tuple[str, ...]] = ("text_encoder", "text_encoder_2")
    ids_axes: ClassVar[int] = 2

    def __init__(
        self,
        *,
        vae: UnboundVae,
        text_encoder: UnboundTextEncoder,
        text_encoder_2: UnboundTextEncoder,
        tokenizer: CLIPTokenizer,
        tokenizer_2: CLIPTokenizer,
        unet: UnboundUNet,
        scheduler: FlaxScheduler,
        safety_checker: UnboundNetwork | None = None,
        feature_extractor: Any = None,
        dtype: DTypeLike = jnp.float32,
    ) -> None:
        self.text_encoder_2 = text_encoder_2
        self.tokenizer_2 = tokenizer_2
        super().__init__(
            vae=vae,
            text_encoder=text_encoder,
            tokenizer=tokenizer,
            unet=unet,
            scheduler=scheduler,
            safety_checker=safety_checker,
            feature_extractor=feature_extractor,
            dtype=dtype,
        )

    def prepare_inputs(self, prompt: str | Sequence[str]) -> npt.NDArray[np.int32]:
        """Return both tokenizers' ids (n, 2, 77) int32 of one prompt or several."""
        both = [self._token_ids(prompt, each) for each in (self.tokenizer, self.tokenizer_2)]
        return np.stack(both, axis=1)

    def __call__(  # noqa: PLR0917 – the removed class's order
        self,
        prompt_ids: Any,
        params: Params,
        prng_seed: jax.Array,
        num_inference_steps: int = STEPS,
        guidance_scale: float | jax.Array = GUIDANCE_SCALE,
        height: int | None = None,
        width: int | None = None,
        latents: Any = None,
        neg_prompt_ids: Any = None,
        return_dict: bool = True,
        output_type: str | None = None,
        jit: bool = False,
    ) -> Any:
        """Paint a picture for each prompt. Returns an output with `images`, or a tuple that begins with them.

        The arguments are those of `FlaxStableDiffusionPipeline`. Without negative ids the unconditional
        encoding is zeros. `output_type="latent"` gives latents (n, c, h, w).
        """
        inputs, form = self._asked(
            prompt_ids,
            prng_seed,
            (height, width),
            guidance_scale,
            neg_prompt_ids,
            noise=latents,
            latents_only=output_type == "latent",
        )
        made = self._run(params, inputs, self._sampling(num_inference_steps), form, jit=jit)
        output = FlaxStableDiffusionXLPipelineOutput(np.asarray(made.images))
        return output if return_dict else (output.images,)

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
        return_latents: bool = False,
    ) -> jax.Array:
        """Return the pictures (n, height, width, 3) of one device's prompts, or their latents.

        Map it with `jax.pmap`. The number of steps and the size must be static.
        """
        inputs, form = self._asked(
            prompt_ids,
            prng_seed,
            (height, width),
            guidance_scale,
            neg_prompt_ids,
            noise=latents,
            latents_only=return_latents,
        )
        return self._paint(params, inputs, self._sampling(num_inference_steps), form)

    def get_embeddings(self, prompt_ids: Any, params: Params) -> tuple[jax.Array, jax.Array]:
        """Return both encoders' encodings, concatenated, (n, 77, width), and the pooled encoding."""
        encoders = tuple(getattr(self, name).bind(params[name]) for name in self.text_encoder_names)
        return embed(encoders, prompt_ids)

    def _negative(self, neg_prompt_ids: Any, prompt_ids: Any) -> Any:  # noqa: ARG002
        """Return `neg_prompt_ids`; None means that the unconditional encoding is zeros."""
        return neg_prompt_ids

    def _condition(self, bound: Bound, inputs: Inputs, form: CallForm) -> Condition:
        encodings = [embed(bound.text_encoders, inputs.prompt_ids)]
        if form.guided:
            negative = (
                jax.tree.map(jnp.zeros_like, encodings[0])
                if inputs.neg_prompt_ids is None
                else embed(bound.text_encoders, inputs.neg_prompt_ids)
            )
            encodings = [negative, *encodings]
        hidden, pooled = (jnp.concatenate(each) for each in zip(*encodings, strict=True))
        sizes = jnp.array([form.height, form.width, 0, 0, form.height, form.width], jnp.float32)
        return Condition(hidden, text_embeds=pooled, time_ids=jnp.tile(sizes, (len(hidden), 1)))


def embed(encoders: tuple[Any, ...], prompt_ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return all encoders' penultimate states, concatenated, and the last encoder's pooled encoding."""
    made = [encoder(prompt_ids[:, index], penultimate=True) for index, encoder in enumerate(encoders)]
    return jnp.concatenate([each.hidden for each in made], axis=-1), made[-1].pooled
