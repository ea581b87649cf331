"""The arithmetic of one lane's pictures on one device: noise, denoising, decoding; pure JAX.

Every function sees one device's rows only and nothing of the others, so the program of a device is
the same however many there are. Rows never meet either: a picture depends on its request only.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from sdjax_engine.samplers import step


class SeatState(NamedTuple):
    """What the seats of a device hold; the first axis of every array is the seat.

    `context` is (seats, halves, tokens, width): the encodings of the negative prompt and the prompt in
    a guided lane, of the prompt alone otherwise. `rows` is the sampler's table, (seats, evaluations, ROW).
    """

    x: jax.Array  # (seats, h, w, c) float32
    r: jax.Array  # (seats, h, w, c) float32
    history: jax.Array  # (seats, HISTORY, h, w, c) float32
    context: jax.Array
    guidance_scale: jax.Array  # (seats,) float32
    seed: jax.Array  # (seats,) uint32
    rows: jax.Array  # float32


class Newcomer(NamedTuple):
    """At most one request for each device, as arrays whose first axis is the device.

    `seat` is counted from the device's own first seat; -1 means that nobody comes to this device.
    """

    seat: jax.Array  # (1,) int32
    guidance_scale: jax.Array  # (1,) float32
    seed: jax.Array  # (1,) uint32
    init_noise_sigma: jax.Array  # (1,) float32
    rows: jax.Array  # (1, evaluations, ROW) float32


class Network(Protocol):
    """The denoising network: (n, h, w, c), (n,), (n, tokens, width) → (n, h, w, c)."""

    def __call__(
        self, sample: jax.Array, timesteps: jax.Array, encoder_hidden_states: jax.Array
    ) -> jax.Array:
        """Return the prediction for each row."""
        ...


class Decoder(Protocol):
    """The picture decoder: latents (n, h, w, c) → (n, 8h, 8w, 3) from -1 to 1."""

    def __call__(self, latents: jax.Array) -> jax.Array:
        """Return the picture of each row."""
        ...


def initial_noise(seed: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Standard noise (h, w, c): that of the removed Flax pipeline for one image and the key of this seed."""
    return _normal(jax.random.PRNGKey(seed), shape)


def fresh_noise(seed: jax.Array, evaluation: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Standard noise (h, w, c) for one evaluation of an image, which ancestral samplers add."""
    return _normal(jax.random.fold_in(jax.random.PRNGKey(seed), evaluation), shape)


def admit(state: SeatState, encodings: jax.Array, newcomer: Newcomer) -> SeatState:
    """Write the newcomer into its seat, nothing of who sat there before being left.

    `encodings` is (1, 2, tokens, width): the negative prompt's and the prompt's.
    """
    halves = state.context.shape[1]
    x = initial_noise(newcomer.seed[0], state.x.shape[1:])[None] * newcomer.init_noise_sigma[0]
    fresh = SeatState(
        x=x,
        r=jnp.zeros_like(x),
        history=step.empty_history(x),
        context=encodings[:, -halves:],
        guidance_scale=newcomer.guidance_scale,
        seed=newcomer.seed,
        rows=newcomer.rows,
    )

    def write(state: SeatState) -> SeatState:
        seat = newcomer.seat[0]
        pairs = zip(state, fresh, strict=True)
        return SeatState(*(jax.lax.dynamic_update_slice_in_dim(rows, one, seat, 0) for rows, one in pairs))

    admitted: SeatState = jax.lax.cond(newcomer.seat[0] >= 0, write, lambda state: state, state)
    return admitted


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
    new = step.advance(*old, m, z, row)
    kept = (jnp.where(active.reshape(-1, *[1] * (b.ndim - 1)), a, b) for a, b in zip(new, old, strict=True))
    x, r, history = kept
    return state._replace(x=x, r=r, history=history)


def predict(network: Network, state: SeatState, row: jax.Array) -> jax.Array:
    """The network's output for every seat, (seats, h, w, c) float32, guidance mixed in where there is any."""
    seats, halves = state.context.shape[:2]
    m = network(
        jnp.repeat(step.network_input(state.x, row), halves, axis=0),
        jnp.repeat(step.timestep(row), halves, axis=0),
        state.context.reshape(seats * halves, *state.context.shape[2:]),
    ).astype(jnp.float32)
    if halves == 1:
        return m
    m = m.reshape(seats, halves, *m.shape[1:])
    unconditional, conditional = m[:, 0], m[:, 1]
    return unconditional + state.guidance_scale[:, None, None, None] * (conditional - unconditional)


def decode(
    decoder: Decoder, x: jax.Array, seat: jax.Array, scaling_factor: float
) -> tuple[jax.Array, jax.Array]:
    """The picture of the latents `x` (seats, h, w, c) in `seat` (1,), and whether all its values are finite.

    Returns uint8 (1, height, width, 3) and bool (1,). A seat of -1 asks for nothing and costs nothing.
    """

    def paint(latents: jax.Array) -> tuple[jax.Array, jax.Array]:
        picture = decoder(latents / scaling_factor)
        return to_uint8(to_unit(picture)), jnp.isfinite(picture).all(axis=(1, 2, 3))

    def leave(latents: jax.Array) -> tuple[jax.Array, jax.Array]:
        like_picture, like_finite = jax.eval_shape(paint, latents)
        return jnp.zeros_like(like_picture), jnp.zeros_like(like_finite)

    latents = jax.lax.dynamic_slice_in_dim(x, jnp.maximum(seat[0], 0), 1)
    painted: tuple[jax.Array, jax.Array] = jax.lax.cond(seat[0] >= 0, paint, leave, latents)
    return painted


def to_unit(picture: jax.Array) -> jax.Array:
    """From the decoder's range of -1 to 1 to float32 from 0 to 1."""
    return jnp.clip(picture.astype(jnp.float32) / 2 + 0.5, 0.0, 1.0)


def to_uint8(picture: jax.Array) -> jax.Array:
    """From 0 to 1 to whole numbers from 0 to 255, rounded as the reference rounds."""
    return jnp.round(picture * 255).astype(jnp.uint8)


def _normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Noise drawn channels first with a leading axis of one, as the reference draws it, then (h, w, c)."""
    height, width, channels = shape
    noise = jax.random.normal(key, (1, channels, height, width), jnp.float32)
    return noise[0].transpose(1, 2, 0)
