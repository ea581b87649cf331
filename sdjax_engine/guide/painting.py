"""The pictures of one device, from conditioning and first latents to pixels; pure JAX."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sdjax_engine.guide.calls import CallForm, Inputs
from sdjax_engine.guide.sampling import Sampling, denoise
from sdjax_engine.models.clip_pixels import Preprocessing, clip_pixels
from sdjax_engine.models.safety_checker import flagged


class Condition(NamedTuple):
    """The UNet's conditioning at every evaluation, for 2n rows (unconditional rows first) or n rows."""

    context: jax.Array  # (rows, length, width)
    text_embeds: jax.Array | None = None
    time_ids: jax.Array | None = None


class Start(NamedTuple):
    """The first latents; `beside` are constant channels that the UNet takes after the latents."""

    x: jax.Array  # (n, h, w, c)
    beside: jax.Array | None = None  # (n, h, w, more)


class Bound(NamedTuple):
    """The networks with their parameters, within one traced function."""

    text_encoders: tuple[Any, ...]
    unet: Any
    vae: Any


class Shown(NamedTuple):
    """The pictures (n, height, width, 3) of a call, and whether each is unfit to show, bool (n,)."""

    images: jax.Array
    unfit: jax.Array | None = None


def latents_of(  # noqa: PLR0917 – the parts of a call, in the order of their use
    unet: Any, condition: Condition, start: Start, inputs: Inputs, sampling: Sampling, form: CallForm
) -> jax.Array:
    """Return the denoised latents (n, h, w, c)."""
    halves = 2 if form.guided else 1
    sizes = {"text_embeds": condition.text_embeds, "time_ids": condition.time_ids}
    sizes = {name: value for name, value in sizes.items() if value is not None}
    prompt = unet.project(condition.context)

    def predict(x: jax.Array, timesteps: jax.Array) -> jax.Array:
        sample = x if start.beside is None else jnp.concatenate([x, start.beside], axis=-1)
        rows = jnp.concatenate([sample] * halves), jnp.concatenate([timesteps] * halves)
        m = unet(*rows, prompt, **sizes).astype(jnp.float32)
        return guide(m, inputs.guidance_scale) if form.guided else m

    return denoise(predict, start.x, inputs.key, sampling)


def guide(m: jax.Array, guidance_scale: jax.Array) -> jax.Array:
    """Mix the predictions of 2n rows, unconditional rows first, into n rows (classifier-free guidance)."""
    unconditional, conditional = jnp.split(m, 2)
    return unconditional + guidance_scale[:, None, None, None] * (conditional - unconditional)


def decode(vae: Any, latents: jax.Array, scaling_factor: float) -> jax.Array:
    """Return the pictures (n, height, width, 3) from 0 to 1, float32."""
    picture = vae.decode(latents / scaling_factor)
    return jnp.clip(picture.astype(jnp.float32) / 2 + 0.5, 0.0, 1.0)


def checked(checker: Any, pictures: jax.Array, preprocessing: Preprocessing) -> Shown:
    """Return the pictures, with unfit pictures made black. The checker sees them rounded as in a file."""
    unfit = flagged(checker(clip_pixels(pictures, preprocessing)))
    return Shown(jnp.where(unfit[:, None, None, None], 0.0, pictures), unfit)
