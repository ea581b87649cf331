"""The arrays of a device's seats and of a newcomer; the first axis of every array is the seat.

A value that a model does not use (pooled encodings, sizes, further input channels, LoRAs) has an axis of
length zero, so that all models have the same tree of arrays.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import jax

Arrays = TypeVar("Arrays")
KeysValues = dict[str, tuple[jax.Array, jax.Array]]
"""The keys and values of each layer that attends to the prompt, by the layer's path in the network."""


class Conditioning(NamedTuple):
    """The UNet's inputs besides the noisy picture.

    `halves` are the negative prompt and the prompt in a guided lane, the prompt alone otherwise. A text is
    held as the keys and values of each layer that attends to it, computed once for all evaluations; only the
    first `lengths` of its `tokens` count. The LoRAs are the rows of the model's bank that a picture gathers,
    and the scale of each row.
    """

    keys_values: KeysValues  # each (seats, halves, tokens, width)
    lengths: jax.Array  # (seats, halves) int32
    text_embeds: jax.Array  # (seats, halves, pooled width)
    time_ids: jax.Array  # (seats, 6 or 0) float32
    lora_rows: jax.Array  # (seats, rank) int32
    lora_scales: jax.Array  # (seats, rank) float32


class StartPicture(NamedTuple):
    """The start of a picture, and the part of it that is kept.

    `latents` are the start picture's, scaled for the UNet; `mask` is 1 where it is repainted and 0 where it
    is kept; `channels` are the further input channels of an inpainting UNet.
    """

    latents: jax.Array  # (seats, h, w, c) float32
    mask: jax.Array  # (seats, h, w, 1) float32
    channels: jax.Array  # (seats, h, w, further channels) float32


class SamplerState(NamedTuple):
    """The arrays that an evaluation changes: the latents, the saved tensor and what the method kept."""

    x: jax.Array  # (seats, h, w, c) float32
    r: jax.Array  # (seats, h, w, c) float32
    history: jax.Array  # (seats, HISTORY, h, w, c) float32


class SeatInputs(NamedTuple):
    """The arrays that stay as they are from a request's admission to its picture.

    `rows` is the sampler's table, which has the guidance scales too; `noise` is the picture's initial noise.
    """

    noise: jax.Array  # (seats, h, w, c) float32
    start: StartPicture
    conditioning: Conditioning
    seed: jax.Array  # (seats,) uint32
    rows: jax.Array  # (seats, evaluations, ROW) float32


class SeatState(NamedTuple):
    """The state of the seats."""

    sampler: SamplerState
    inputs: SeatInputs


class Newcomer(NamedTuple, Generic[Arrays]):
    """At most one request for each device; the first axis of every array is the device.

    `seat` is counted from the device's own first seat. `Arrays` are NumPy's arrays on the host, and JAX's
    within a program.
    """

    seat: Arrays  # (1,) int32
    seed: Arrays  # (1,) uint32
    variation_seeds: Arrays  # (1, MAX_VARIATIONS) uint32
    variation_strengths: Arrays  # (1, MAX_VARIATIONS) float32, 0 for none
    init_noise_sigma: Arrays  # (1,) float32
    init_latent_scale: Arrays  # (1,) float32
    time_ids: Arrays  # (1, 6 or 0) float32
    lora_rows: Arrays  # (1, rank) int32
    lora_scales: Arrays  # (1, rank) float32
    rows: Arrays  # (1, evaluations, ROW) float32


class Encoding(NamedTuple):
    """The encoding of one text for each device; only the first `length` tokens count."""

    hidden: jax.Array  # (1, tokens, width)
    pooled: jax.Array  # (1, pooled width)
    length: jax.Array  # (1,) int32
