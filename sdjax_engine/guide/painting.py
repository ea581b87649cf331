"""The pictures of a call, from its arrays to pixels: on one device in pure JAX, and spread over several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding

from sdjax_engine.memory.devices import AXIS, BY_SEAT, REPLICATED
from sdjax_engine.models.clip import flagged
from sdjax_engine.models.controlnet import ControlCondition
from sdjax_engine.models.pixels import Preprocessing, clip_pixels
from sdjax_engine.models.unet import Residuals
from sdjax_engine.samplers import ROW, step
from sdjax_engine.samplers.tables import Table


@dataclass(frozen=True, kw_only=True)
class CallForm:
    """The static part of a compiled program, besides the shapes of its arrays.

    `guided` is False if the guidance is exactly 1: the unconditional half then has no weight.
    """

    height: int
    width: int
    guided: bool
    latents_only: bool = False
    checked: bool = False


class Inputs(NamedTuple):
    """The arrays of a call on one device; an array that the pipeline does not use is None.

    Pictures and latents are channels first, as in the removed classes.
    """

    prompt_ids: Any  # (n, length) int32, or (n, encoders, length)
    neg_prompt_ids: Any  # the same
    key: Any
    guidance_scale: Any  # (n,) float32
    noise: Any = None  # (n, c, h, w), standard normal
    image: Any = None  # (n, 3, height, width) from -1 to 1
    mask: Any = None  # (n, 1, height, width), 1 where to paint
    control: Any = None  # (n, 3, height, width) from 0 to 1
    control_scale: Any = None  # (n,) float32


def guidance_of(guidance_scale: Any, lead: tuple[int, ...]) -> jax.Array:
    """Return the guidance of each row, float32 of shape `lead`: (n,), or (devices, n).

    `guidance_scale` may be one number, or an array whose axes are the first axes of `lead`.
    """
    scale = jnp.asarray(guidance_scale, jnp.float32)
    trailing = (1,) * max(0, len(lead) - scale.ndim) if scale.ndim else ()
    return jnp.broadcast_to(scale.reshape(*scale.shape, *trailing), lead)


def is_guided(guidance_scale: Any) -> bool:
    """Whether the unconditional half has any weight. A traced guidance counts as guided."""
    return isinstance(guidance_scale, jax.core.Tracer) or bool(np.any(np.asarray(guidance_scale) != 1))


Predict = Callable[[jax.Array, jax.Array], jax.Array]
"""Latents (n, h, w, c), timesteps (n,) → the network's guided output, (n, h, w, c) float32."""


class Sampling(NamedTuple):
    """A table as arrays, so that the settings of a sampler are data and compile nothing.

    `rows` is float32 (max_rows, ROW). Only the first `evaluations` rows are used.
    """

    rows: Any
    evaluations: Any
    init_noise_sigma: Any
    init_latent_scale: Any

    @classmethod
    def of(cls, table: Table, *, max_rows: int) -> Sampling:
        """Return the arrays of `table`, padded to `max_rows` rows."""
        return cls(
            rows=table.padded(max_rows),
            evaluations=np.int32(table.evaluations),
            init_noise_sigma=np.float32(table.init_noise_sigma),
            init_latent_scale=np.float32(table.init_latent_scale),
        )


def denoise(predict: Predict, x: jax.Array, key: jax.Array, sampling: Sampling) -> jax.Array:
    """Return the latents (n, h, w, c) after all evaluations, starting from `x`.

    Samplers that add noise draw it from `key` folded with the index of the evaluation.
    """
    n, height, width, channels = x.shape

    def one(index: jax.Array, carried: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        x, r, history = carried
        row = jnp.broadcast_to(jnp.asarray(sampling.rows)[index], (n, ROW))
        m = predict(step.network_input(x, row), step.timestep(row))
        z = normal(jax.random.fold_in(key, index), (n, height, width, channels))
        return step.advance(x, r, history, m, z, row)

    first = (x, jnp.zeros_like(x), step.empty_history(x))
    latents: jax.Array = jax.lax.fori_loop(0, sampling.evaluations, one, first)[0]
    return latents


def normal(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """Standard noise (n, h, w, c), float32; drawn in `dtype`, channels first, as in the removed classes."""
    n, height, width, channels = shape
    noise = jax.random.normal(key, (n, channels, height, width), dtype)
    return channels_last(noise)


def channels_last(pictures: jax.Array) -> jax.Array:
    """(n, c, h, w) → (n, h, w, c), float32."""
    return jnp.asarray(pictures).astype(jnp.float32).transpose(0, 2, 3, 1)


def channels_first(pictures: jax.Array) -> jax.Array:
    """(n, h, w, c) → (n, c, h, w)."""
    return pictures.transpose(0, 3, 1, 2)


def encode(vae: Any, pictures: jax.Array, key: jax.Array) -> jax.Array:
    """Return latents (n, h, w, c), not yet scaled, of pictures (n, 3, height, width).

    The noise of the encoding is drawn channels last; all other noise is drawn channels first.
    """
    mean, logvar = (moment.astype(jnp.float32) for moment in vae.encode(channels_last(pictures)))
    latents: jax.Array = mean + jnp.exp(0.5 * logvar) * jax.random.normal(key, mean.shape, jnp.float32)
    return latents


def mesh_over(count: int) -> Mesh:
    """The mesh of the first `count` devices of this process, in the order of `flax.jax_utils.replicate`."""
    devices = jax.local_devices()
    if count > len(devices):
        raise ValueError(f"The leading axis is {count}, and there are {len(devices)} devices: use `shard`.")
    return Mesh(np.array(devices[:count]), (AXIS,), axis_types=(AxisType.Auto,))


def place(tree: Any, mesh: Mesh) -> Any:
    """Return the tree with each entry of the leading axis on its own device; placed arrays are not copied.

    Raises ValueError, before anything is compiled, for arrays without the leading axis.
    """
    count = mesh.devices.size
    if any(np.shape(leaf)[:1] != (count,) for leaf in jax.tree.leaves(tree)):
        raise ValueError(
            f"With jit=True every array needs a leading axis of the {count} devices: `replicate` the "
            "parameters, `shard` prompts and pictures, and split the key."
        )
    return jax.device_put(tree, NamedSharding(mesh, BY_SEAT))


def over(mesh: Mesh, function: Callable[..., Any], each: tuple[Any, ...], *shared: Any) -> Any:
    """Return the stacked results of `function(*each, *shared)` on every device.

    Only `each` has the leading axis; the function sees its device's entry. Call it within `jax.jit`.
    """

    def one(each: tuple[Any, ...], shared: tuple[Any, ...]) -> Any:
        result = function(*jax.tree.map(lambda array: array[0], each), *shared)
        return jax.tree.map(lambda array: array[None], result)

    specs = (BY_SEAT, REPLICATED)
    return jax.shard_map(one, mesh=mesh, in_specs=specs, out_specs=BY_SEAT, check_vma=False)(each, shared)


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
    controlnet: Any = None


class Shown(NamedTuple):
    """The pictures (n, height, width, 3) of a call, and whether each is unfit to show, bool (n,)."""

    images: jax.Array
    unfit: jax.Array | None = None


def latents_of(  # noqa: PLR0917 – the parts of a call, in the order of their use
    bound: Bound, condition: Condition, start: Start, inputs: Inputs, sampling: Sampling, form: CallForm
) -> jax.Array:
    """Return the denoised latents (n, h, w, c)."""
    halves = 2 if form.guided else 1
    sizes = {"text_embeds": condition.text_embeds, "time_ids": condition.time_ids}
    sizes = {name: value for name, value in sizes.items() if value is not None}
    prompt = bound.unet.project(condition.context)
    control = control_of(bound.controlnet, condition, inputs, halves)

    def predict(x: jax.Array, timesteps: jax.Array) -> jax.Array:
        sample = x if start.beside is None else jnp.concatenate([x, start.beside], axis=-1)
        rows = jnp.concatenate([sample] * halves), jnp.concatenate([timesteps] * halves)
        m = bound.unet(*rows, prompt, control=control(*rows), **sizes).astype(jnp.float32)
        return guide(m, inputs.guidance_scale) if form.guided else m

    return denoise(predict, start.x, inputs.key, sampling)


def control_of(
    controlnet: Any, condition: Condition, inputs: Inputs, halves: int
) -> Callable[[jax.Array, jax.Array], Residuals | None]:
    """Return what a ControlNet adds at an evaluation of these rows: nothing without one.

    Its prompt and its picture are the same at all evaluations.
    """
    if controlnet is None:
        return lambda _sample, _timesteps: None
    prompt = controlnet.project(condition.context)
    features = controlnet.embed(channels_last(inputs.control)).features
    picture = ControlCondition(jnp.concatenate([features] * halves))
    strength = jnp.concatenate([inputs.control_scale] * halves)

    def residuals(sample: jax.Array, timesteps: jax.Array) -> Residuals:
        made: Residuals = controlnet(sample, timesteps, prompt, picture)
        return made.scaled(strength)

    return residuals


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
