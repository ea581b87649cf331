"""One device's pictures: what the UNet is told, what it starts from, and the way to the picture; pure JAX."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sdjax_engine.guide.calls import Form, Inputs
from sdjax_engine.guide.sampling import Sampling, denoise
from sdjax_engine.models.clip_pixels import Preprocessing, clip_pixels
from sdjax_engine.models.safety_checker import flagged


class Condition(NamedTuple):
    """What the UNet is told at every evaluation, for 2n rows (unconditional ones first) or n."""

    context: jax.Array  # (rows, length, width)
    text_embeds: jax.Array | None = None
    time_ids: jax.Array | None = None


class Start(NamedTuple):
    """What the denoising starts from; `beside` are channels that stand beside the latents all the way."""

    x: jax.Array  # (n, h, w, c)
    beside: jax.Array | None = None  # (n, h, w, more)


class Bound(NamedTuple):
    """The networks with their parameters, within one traced function."""

    text_encoders: tuple[Any, ...]
    unet: Any
    vae: Any


class Shown(NamedTuple):
    """The pictures (n, height, width, 3) of a call, and for each (n,) whether it was found unfit to show."""

    images: jax.Array
    unfit: jax.Array | None = None


def latents_of(  # noqa: PLR0917 – what a call is made of, in the order in which it comes to be
    unet: Any, condition: Condition, start: Start, inputs: Inputs, sampling: Sampling, form: Form
) -> jax.Array:
    """Return the latents (n, h, w, c) that the denoising ends with."""
    halves = 2 if form.guided else 1
    told = {"text_embeds": condition.text_embeds, "time_ids": condition.time_ids}
    told = {name: value for name, value in told.items() if value is not None}
    prompt = unet.project(condition.context)

    def predict(x: jax.Array, timesteps: jax.Array) -> jax.Array:
        seen = x if start.beside is None else jnp.concatenate([x, start.beside], axis=-1)
        rows = jnp.concatenate([seen] * halves), jnp.concatenate([timesteps] * halves)
        m = unet(*rows, prompt, **told).astype(jnp.float32)
        return guide(m, inputs.guidance_scale) if form.guided else m

    return denoise(predict, start.x, inputs.key, sampling)


def guide(m: jax.Array, guidance_scale: jax.Array) -> jax.Array:
    """Return the prediction for n rows from that of 2n, the unconditional ones first."""
    unconditional, conditional = jnp.split(m, 2)
    return unconditional + guidance_scale[:, None, None, None] * (conditional - unconditional)


def decode(vae: Any, latents: jax.Array, scaling_factor: float) -> jax.Array:
    """Return the pictures (n, height, width, 3) from 0 to 1, float32."""
    picture = vae.decode(latents / scaling_factor)
    return jnp.clip(picture.astype(jnp.float32) / 2 + 0.5, 0.0, 1.0)


def checked(checker: Any, pictures: jax.Array, preprocessing: Preprocessing) -> Shown:
    """Return the pictures, black where the checker finds them unfit; it sees them as they will be saved."""
    unfit = flagged(checker(clip_pixels(pictures, preprocessing)))
    return Shown(jnp.where(unfit[:, None, None, None], 0.0, pictures), unfit)
