"""The arithmetic of one lane's pictures on one device: admission, denoising, decoding; pure JAX.

Every function sees one device's rows only and nothing of the others, so the program of a device is
the same however many there are. Rows never meet either: a picture depends on its request only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from sdjax_engine.denoising.noise import fresh_noise, initial_noise
from sdjax_engine.denoising.state import Conditioning, Encoding, KeysValues, Newcomer, SeatState, StartPicture
from sdjax_engine.samplers import step
from sdjax_engine.samplers.tables import Column


class Project(Protocol):
    """What the layers of the denoising network make of texts, as `Conditioning` holds it, row by row."""

    def __call__(
        self, hidden: jax.Array, lengths: jax.Array, lora_rows: jax.Array, lora_scales: jax.Array
    ) -> KeysValues:
        """Return keys and values of `hidden` (texts, tokens, width), all under the same LoRAs (1, rank)."""
        ...


class Network(Protocol):
    """The denoising network over rows, one for each half of each seat."""

    def __call__(
        self, sample: jax.Array, timesteps: jax.Array, guidance_scale: jax.Array, told: Conditioning
    ) -> jax.Array:
        """Return the prediction (rows, h, w, c) for `sample` (rows, h, w, input channels)."""
        ...


class Decoder(Protocol):
    """The picture decoder: latents (n, h, w, c) → (n, 8h, 8w, 3) from -1 to 1."""

    def __call__(self, latents: jax.Array) -> jax.Array:
        """Return the picture of each row."""
        ...


class Judge(Protocol):
    """The safety checker: pictures (n, height, width, 3) from 0 to 1 → scores (n, concepts)."""

    def __call__(self, pictures: jax.Array) -> jax.Array:
        """Return the scores of each row."""
        ...


class Decoded(NamedTuple):
    """A picture, whether all its values are finite, and how the safety checker scores it."""

    pixels: jax.Array  # (1, height, width, 3) uint8
    finite: jax.Array  # (1,) bool
    scores: jax.Array  # (1, concepts) float32; none without a safety checker


def admit(  # noqa: PLR0917 – what is known of a newcomer, in the order in which it comes to be
    project: Project,
    state: SeatState,
    negative: Encoding,
    positive: Encoding,
    start: StartPicture,
    newcomer: Newcomer[jax.Array],
) -> SeatState:
    """Write the newcomer into its seat, nothing of who sat there before being left."""

    def write(state: SeatState) -> SeatState:
        guided = state.conditioning.lengths.shape[1] == 2
        halves = (negative, positive) if guided else (positive,)
        fresh, seat = seated(project, halves, start, newcomer), newcomer.seat[0]
        written: SeatState = jax.tree.map(
            lambda rows, one: jax.lax.dynamic_update_slice_in_dim(rows, one, seat, 0), state, fresh
        )
        return written

    admitted: SeatState = jax.lax.cond(newcomer.seat[0] >= 0, write, lambda state: state, state)
    return admitted


def seated(
    project: Project, halves: Sequence[Encoding], start: StartPicture, newcomer: Newcomer[jax.Array]
) -> SeatState:
    """What one seat holds of a newcomer that is told these texts."""
    noise = initial_noise(newcomer.seed[0], start.latents.shape[1:])[None]
    x = newcomer.init_latent_scale[0] * start.latents + newcomer.init_noise_sigma[0] * noise
    keys_values = project(
        jnp.concatenate([half.hidden for half in halves]),
        jnp.concatenate([half.length for half in halves]),
        newcomer.lora_rows,
        newcomer.lora_scales,
    )
    return SeatState(
        x=x,
        r=jnp.zeros_like(x),
        history=step.empty_history(x),
        noise=noise,
        start=start,
        conditioning=Conditioning(
            keys_values=jax.tree.map(lambda texts: texts[None], keys_values),
            lengths=jnp.stack([half.length for half in halves], axis=1),
            text_embeds=jnp.stack([half.pooled for half in halves], axis=1),
            time_ids=newcomer.time_ids,
            lora_rows=newcomer.lora_rows,
            lora_scales=newcomer.lora_scales,
        ),
        guidance_scale=newcomer.guidance_scale,
        seed=newcomer.seed,
        rows=newcomer.rows,
    )


def denoise(
    network: Network, state: SeatState, start: jax.Array, stop: jax.Array
) -> tuple[SeatState, jax.Array]:
    """Make each seat's evaluations from `start` up to, not including, `stop` (seats,) int32.

    A seat whose `start` equals `stop` stays as it is, and a device without any other does nothing.
    Returns the state and, to be waited for, the number of evaluations made, (1,).
    """

    def one(index: jax.Array, state: SeatState) -> SeatState:
        evaluation = start + index
        return evaluate(network, state, evaluation, active=evaluation < stop)

    length = jnp.max(stop - start)
    done, state = jax.lax.while_loop(
        lambda carry: carry[0] < length,
        lambda carry: (carry[0] + 1, one(*carry)),
        (jnp.zeros((), jnp.int32), state),
    )
    return state, done[None]


def evaluate(network: Network, state: SeatState, evaluation: jax.Array, *, active: jax.Array) -> SeatState:
    """Ask the network once for every seat, each at its own `evaluation`, and advance those `active`."""
    row = jax.vmap(lambda rows, index: jax.lax.dynamic_index_in_dim(rows, index, keepdims=False))(
        state.rows, evaluation
    )
    m = predict(network, state, row)
    z = jax.vmap(lambda seed, index: fresh_noise(seed, index, state.x.shape[1:]))(state.seed, evaluation)
    old = state.x, state.r, state.history
    x, r, history = step.advance(*old, m, z, row)
    x = jnp.where(state.start.mask > 0, x, kept_part(state, row))
    new = x, r, history
    held = (jnp.where(active.reshape(-1, *[1] * (b.ndim - 1)), a, b) for a, b in zip(new, old, strict=True))
    x, r, history = held
    return state._replace(x=x, r=r, history=history)


def kept_part(state: SeatState, row: jax.Array) -> jax.Array:
    """What a pixel that is not painted anew holds after this evaluation: the start picture, as noisy as x."""
    weights = (row[:, column, None, None, None] for column in (Column.KEEP_LATENTS, Column.KEEP_NOISE))
    of_latents, of_noise = weights
    return of_latents * state.start.latents + of_noise * state.noise


def predict(network: Network, state: SeatState, row: jax.Array) -> jax.Array:
    """The network's output for every seat, (seats, h, w, c) float32, guidance mixed in where there is any."""
    seats, halves = state.conditioning.lengths.shape
    sample = jnp.concatenate([step.network_input(state.x, row), state.start.channels], axis=-1)
    m = network(
        jnp.repeat(sample, halves, axis=0),
        jnp.repeat(step.timestep(row), halves, axis=0),
        jnp.repeat(state.guidance_scale, halves, axis=0),
        rows_of(state.conditioning),
    ).astype(jnp.float32)
    if halves == 1:
        return m
    m = m.reshape(seats, halves, *m.shape[1:])
    unconditional, conditional = m[:, 0], m[:, 1]
    return unconditional + state.guidance_scale[:, None, None, None] * (conditional - unconditional)


def rows_of(told: Conditioning) -> Conditioning:
    """The same with one row for each half of each seat, as the network sees them; LoRAs stay one for each."""
    seats, halves = told.lengths.shape
    return told._replace(
        keys_values=jax.tree.map(
            lambda each: each.reshape(seats * halves, *each.shape[2:]), told.keys_values
        ),
        lengths=told.lengths.reshape(seats * halves),
        text_embeds=told.text_embeds.reshape(seats * halves, -1),
        time_ids=jnp.repeat(told.time_ids, halves, axis=0),
    )


def take(x: jax.Array, seat: jax.Array) -> jax.Array:
    """The latents (1, h, w, c) in `seat` (1,) of `x` (seats, h, w, c); of -1 nothing in particular."""
    return jax.lax.dynamic_slice_in_dim(x, jnp.maximum(seat[0], 0), 1)


def decode(
    decoder: Decoder, judge: Judge | None, latents: jax.Array, present: jax.Array, scaling_factor: float
) -> Decoded:
    """The picture of `latents` (1, h, w, c), and what is to be said of it.

    Where `present` (1,) bool is False nothing is asked for, which costs nothing.
    """

    def paint() -> Decoded:
        picture = decoder(latents / scaling_factor)
        pixels = to_uint8(to_unit(picture))
        scores = jnp.zeros((1, 0)) if judge is None else judge(pixels.astype(jnp.float32) / 255)
        return Decoded(pixels=pixels, finite=jnp.isfinite(picture).all(axis=(1, 2, 3)), scores=scores)

    def leave() -> Decoded:
        nothing: Decoded = jax.tree.map(jnp.zeros_like, jax.eval_shape(paint))
        return nothing

    painted: Decoded = jax.lax.cond(present[0], paint, leave)
    return painted


def to_unit(picture: jax.Array) -> jax.Array:
    """From the decoder's range of -1 to 1 to float32 from 0 to 1."""
    return jnp.clip(picture.astype(jnp.float32) / 2 + 0.5, 0.0, 1.0)


def to_uint8(picture: jax.Array) -> jax.Array:
    """From 0 to 1 to whole numbers from 0 to 255, rounded as the reference rounds."""
    return jnp.round(picture * 255).astype(jnp.uint8)
