"""The arrays of a device's seats and of a newcomer; the first axis of every array is the seat.

LoRAs and further input channels that a model does not use have an axis of length zero.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import jax

from sdjax_engine.families.family import Conditioning
from sdjax_engine.models.lora_bank import LoraRows

Arrays = TypeVar("Arrays")


class StartPicture(NamedTuple):
    """The start of a picture, and the part of it that is kept.

    `latents` are the start picture's; `mask` is 1 where it is repainted and 0 where it is kept; `channels`
    are the further input channels of a network that inpaints.
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
    `conditioning` is the family's; `loras` are the rows of the model's bank that the picture gathers.
    `control` is the conditioning of a ControlNet, `image` that of image prompts; both are None in programs
    without them.
    """

    noise: jax.Array  # (seats, h, w, c) float32
    start: StartPicture
    conditioning: Conditioning
    loras: LoraRows
    seed: jax.Array  # (seats,) uint32
    rows: jax.Array  # (seats, evaluations, ROW) float32
    control: Conditioning | None = None
    image: Conditioning | None = None


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
    loras: LoraRows  # each (1, rank)
    rows: Arrays  # (1, evaluations, ROW) float32
