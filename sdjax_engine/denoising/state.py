"""What the seats of a device hold, and what a newcomer brings; the first axis of every array is the seat.

A model that has no use for a value (pooled encodings, sizes, further input channels, LoRAs) holds it with an
axis of length zero, so that all models have one form.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import jax

Rows = TypeVar("Rows")
KeysValues = dict[str, tuple[jax.Array, jax.Array]]
"""Keys and values of each layer that attends to the prompt, by its place in the network."""


class Conditioning(NamedTuple):
    """What the network is told of the wish besides the noisy picture.

    `halves` are the negative prompt and the prompt in a guided lane, the prompt alone otherwise. The texts'
    encodings are held as what each layer that attends to them makes of them, once for all evaluations: its
    keys and values, of whose `tokens` only the first `lengths` count. The LoRAs are the rows of the model's
    bank that a picture gathers, and how strong each is.
    """

    keys_values: KeysValues  # each (seats, halves, tokens, width)
    lengths: jax.Array  # (seats, halves) int32
    text_embeds: jax.Array  # (seats, halves, pooled width)
    time_ids: jax.Array  # (seats, 6 or 0) float32
    lora_rows: jax.Array  # (seats, rank) int32
    lora_scales: jax.Array  # (seats, rank) float32


class StartPicture(NamedTuple):
    """What a picture starts from and what of it is kept.

    `latents` are those of the picture, scaled for the network; `mask` is 1 where it is painted anew and 0
    where it is kept; `channels` are the further input channels of an inpainting network.
    """

    latents: jax.Array  # (seats, h, w, c) float32
    mask: jax.Array  # (seats, h, w, 1) float32
    channels: jax.Array  # (seats, h, w, further channels) float32


class SeatState(NamedTuple):
    """All that the seats hold; `rows` is the sampler's table, `noise` what the picture began with."""

    x: jax.Array  # (seats, h, w, c) float32
    r: jax.Array  # (seats, h, w, c) float32
    history: jax.Array  # (seats, HISTORY, h, w, c) float32
    noise: jax.Array  # (seats, h, w, c) float32
    start: StartPicture
    conditioning: Conditioning
    guidance_scale: jax.Array  # (seats,) float32
    seed: jax.Array  # (seats,) uint32
    rows: jax.Array  # (seats, evaluations, ROW) float32


class Newcomer(NamedTuple, Generic[Rows]):
    """At most one request for each device; the first axis of every array is the device.

    `seat` is counted from the device's own first seat; -1 means that nobody comes to this device. `Rows` are
    the host's arrays, and JAX's within a program.
    """

    seat: Rows  # (1,) int32
    guidance_scale: Rows  # (1,) float32
    seed: Rows  # (1,) uint32
    init_noise_sigma: Rows  # (1,) float32
    init_latent_scale: Rows  # (1,) float32
    time_ids: Rows  # (1, 6 or 0) float32
    lora_rows: Rows  # (1, rank) int32
    lora_scales: Rows  # (1, rank) float32
    rows: Rows  # (1, evaluations, ROW) float32


class Encoding(NamedTuple):
    """One text for each device as the network is told of it; only the first `length` tokens count."""

    hidden: jax.Array  # (1, tokens, width)
    pooled: jax.Array  # (1, pooled width)
    length: jax.Array  # (1,) int32
