"""The functions that JAX traces for the evaluations of a run: of every seat of a device, or of some of them.

`denoising/traced.py` says what holds for every traced function.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from sdjax_engine.denoising.noise import fresh_noise
from sdjax_engine.denoising.state import KeysValues, SamplerState, SeatInputs
from sdjax_engine.denoising.traced import Networks, WithLoras
from sdjax_engine.models.cross_attention_inputs import Projection
from sdjax_engine.samplers import step
from sdjax_engine.samplers.tables import Column

ASCENDING: Any = {"mode": "promise_in_bounds", "unique_indices": True, "indices_are_sorted": True}
"""How seats that ascend are gathered and written."""


def denoise(  # noqa: PLR0917 – the two halves of the state, and the run
    networks: Networks,
    parameters: WithLoras,
    sampler: SamplerState,
    inputs: SeatInputs,
    start: jax.Array,
    stop: jax.Array,
    *,
    counted_by_host: bool = False,
) -> tuple[SamplerState, jax.Array]:
    """Make each seat's evaluations from `start` up to, not including, `stop` (seats,) int32.

    A seat whose `start` is not below `stop` stays as it is; a device with no other seat computes nothing.
    With `counted_by_host` it is one evaluation, of every device: the host calls it again for the next one.
    Returns the state and the number of evaluations made, (1,), which the host waits for.
    """

    def one_more(sampler: SamplerState, evaluation: jax.Array) -> SamplerState:
        active = evaluation < stop
        return evaluate(networks, parameters, sampler, inputs, evaluation, active=active)

    if counted_by_host:
        return one_more(sampler, start), jnp.ones((1,), jnp.int32)
    length = jnp.max(stop - start)
    done, sampler = jax.lax.while_loop(
        lambda carry: carry[0] < length,
        lambda carry: (carry[0] + 1, one_more(carry[1], start + carry[0])),
        (jnp.zeros((), jnp.int32), sampler),
    )
    return sampler, done[None]


def denoise_some(  # noqa: PLR0917 – the arguments of `denoise`, and which seats
    networks: Networks,
    parameters: WithLoras,
    sampler: SamplerState,
    inputs: SeatInputs,
    seats: jax.Array,
    start: jax.Array,
    stop: jax.Array,
    *,
    counted_by_host: bool = False,
) -> tuple[SamplerState, jax.Array]:
    """Make the evaluations of the `seats` (rows,) int32, ascending; `start` and `stop` are theirs.

    The other seats stay as they are, and are not computed. Returns what `denoise` does.
    """
    own: tuple[SamplerState, SeatInputs] = jax.tree.map(
        lambda of_all: of_all.at[seats].get(**ASCENDING), (sampler, inputs)
    )
    changed, done = denoise(networks, parameters, *own, start, stop, counted_by_host=counted_by_host)
    written: SamplerState = jax.tree.map(
        lambda of_all, rows: of_all.at[seats].set(rows, **ASCENDING), sampler, changed
    )
    return written, done


def evaluate(
    networks: Networks,
    parameters: WithLoras,
    sampler: SamplerState,
    inputs: SeatInputs,
    evaluation: jax.Array,
    *,
    active: jax.Array,
) -> SamplerState:
    """Call the UNet once for every seat, each at its own `evaluation`, and advance the seats `active`."""
    row = jax.vmap(lambda rows, index: jax.lax.dynamic_index_in_dim(rows, index, keepdims=False))(
        inputs.rows, evaluation
    )
    m = predict(networks, parameters, sampler.x, inputs, row)
    z = jax.vmap(lambda seed, index: fresh_noise(seed, index, sampler.x.shape[1:]))(inputs.seed, evaluation)
    x, r, history = step.advance(*sampler, m, z, row)
    x = jnp.where(inputs.start.mask > 0, x, kept_part(inputs, row))
    return SamplerState(
        *(
            jnp.where(active.reshape(-1, *[1] * (old.ndim - 1)), new, old)
            for new, old in zip((x, r, history), sampler, strict=True)
        )
    )


def predict(
    networks: Networks, parameters: WithLoras, x: jax.Array, inputs: SeatInputs, row: jax.Array
) -> jax.Array:
    """Return the UNet's output for every seat, (seats, h, w, c) float32, with guidance applied."""
    conditioning = inputs.conditioning
    seats, halves = conditioning.lengths.shape
    sample = jnp.concatenate([step.network_input(x, row), inputs.start.channels], axis=-1)
    sample = jnp.repeat(sample, halves, axis=0)
    timesteps = jnp.repeat(step.timestep(row), halves, axis=0)
    guidance_scale = jnp.repeat(inputs.guidance_scale, halves, axis=0)
    keys_values: KeysValues = jax.tree.map(
        lambda rows: rows.reshape(seats * halves, *rows.shape[2:]), conditioning.keys_values
    )
    lengths = conditioning.lengths.reshape(seats * halves)
    text_embeds = conditioning.text_embeds.reshape(seats * halves, -1)
    time_ids = jnp.repeat(conditioning.time_ids, halves, axis=0)
    unet = networks.unet.adapted(*parameters, conditioning.lora_rows, conditioning.lora_scales)
    further: dict[str, jax.Array] = {}
    if networks.takes_sizes:
        further |= {"text_embeds": text_embeds, "time_ids": time_ids}
    if networks.takes_guidance:
        further["guidance"] = guidance_scale
    prompt = Projection(keys_values, lengths if networks.takes_lengths else None)
    m: jax.Array = unet(sample, timesteps, prompt, **further).astype(jnp.float32)
    if halves == 1:
        return m
    m = m.reshape(seats, halves, *m.shape[1:])
    unconditional, conditional = m[:, 0], m[:, 1]
    return unconditional + inputs.guidance_scale[:, None, None, None] * (conditional - unconditional)


def kept_part(inputs: SeatInputs, row: jax.Array) -> jax.Array:
    """Return the kept pixels after an evaluation: the start picture with as much noise as x has."""
    of_latents, of_noise = (
        row[:, column, None, None, None] for column in (Column.KEEP_LATENTS, Column.KEEP_NOISE)
    )
    return of_latents * inputs.start.latents + of_noise * inputs.noise
