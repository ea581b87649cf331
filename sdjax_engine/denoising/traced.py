"""The functions that JAX traces, one for each compiled program, in the order of a picture's life.

encode   one text for each device → its encoding
begin    a start picture and its mask → latents, mask and further input channels
empty    the seats of a lane before any request
admit    one request for each device → its seat
take     the latents of one seat
decode   latents of some pictures → for each its pixels, whether they are finite, the safety checker's scores,
         the picture classifier's input

Between `admit` and `take` come the evaluations of `denoising/evaluations.py`. `denoising/estimates.py` has
the functions of previews.

A function sees the rows of one device only, so the program of a device is the same for any number of devices.
No operation joins rows of different seats: a picture depends on its request only. Arguments that come before
the parameters, and keyword arguments, are fixed when a program is traced.

The host calls a program for the devices that need it. With `counted_by_host` a program has no branch, and no
loop whose end the device computes: a GPU decides these on the host, which then waits in every turn of a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from sdjax_engine.denoising.noise import (
    OF_KEPT_PICTURE,
    OF_START_PICTURE,
    fresh_noise,
    initial_noise,
    varied_noise,
)
from sdjax_engine.denoising.state import (
    Conditioning,
    Encoding,
    KeysValues,
    Newcomer,
    SamplerState,
    SeatInputs,
    SeatState,
    StartPicture,
)
from sdjax_engine.models.lora_bank import Bank
from sdjax_engine.models.pixels import Preprocessing, ViTPreprocessing, clip_pixels, vit_pixels
from sdjax_engine.samplers import step
from sdjax_engine.weights.networks import Blueprint, Parameters


def apply_weights(hidden: jax.Array, weights: jax.Array) -> jax.Array:
    """Return encodings (..., length, width) float32 multiplied by their tokens' weights (..., length).

    The arithmetic is AUTOMATIC1111's: z ← z·w, then z ← z · mean(z before) / mean(z), over all tokens of each
    chunk. A chunk whose weights are all 1 is unchanged to the bit. If the weighted mean is 0, the second step
    is left out.
    """
    weighted = hidden * weights[..., None]
    mean = jnp.mean(hidden, axis=(-2, -1), keepdims=True)
    new_mean = jnp.mean(weighted, axis=(-2, -1), keepdims=True)
    restored = weighted * jnp.where(new_mean == 0.0, 1.0, mean / new_mean)
    return jnp.where(jnp.all(weights == 1.0, axis=-1)[..., None, None], hidden, restored)


def safety_scores(
    checker: Blueprint | None,
    preprocessing: Preprocessing | None,
    parameters: Parameters | None,
    pixels: jax.Array,
) -> jax.Array:
    """Return the safety checker's scores (n, concepts) of uint8 pixels (n, h, w, 3); (n, 0) without one."""
    if checker is None or preprocessing is None or parameters is None:
        return jnp.zeros((len(pixels), 0))
    inputs = clip_pixels(pixels.astype(jnp.float32) / 255, preprocessing)
    return jnp.concatenate(checker.module(parameters)(inputs), axis=-1)


def classifier_input(preprocessing: ViTPreprocessing | None, pixels: jax.Array) -> jax.Array:
    """Return the classifier's input for uint8 pixels (n, h, w, 3); (n, 0) without a classifier."""
    return jnp.zeros((len(pixels), 0)) if preprocessing is None else vit_pixels(pixels, preprocessing)


def classify(blueprint: Blueprint, parameters: Parameters, inputs: jax.Array) -> jax.Array:
    """Return the probability of each label, float32 (1, labels), of `inputs` (1, h, w, 3)."""
    return jax.nn.softmax(blueprint.module(parameters)(inputs), axis=-1)


WithLoras = tuple[Parameters, Bank]
"""The parameters of a network, and the rows of the LoRAs that adapt it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Networks:
    """The networks of one checkpoint without their parameters, and how the programs use them.

    `penultimate`: the text encoders' last layer but one is the encoding. `further_channels` are the UNet's
    input channels beyond the latents'. `takes_sizes`: the UNet is conditioned on the picture's sizes and the
    pooled encoding. `takes_guidance`: it is conditioned on the guidance scale. `takes_lengths`: texts may
    differ in their number of chunks. `of_classifier` is the preprocessing of a picture classifier, if any.
    """

    text_encoders: tuple[Blueprint, ...]
    penultimate: bool
    unet: Blueprint
    further_channels: int
    takes_sizes: bool
    takes_guidance: bool
    takes_lengths: bool
    vae: Blueprint
    vae_in_float32: Blueprint
    scaling_factor: float
    safety_checker: Blueprint | None
    preprocessing: Preprocessing | None
    of_classifier: ViTPreprocessing | None = None


class Decoded(NamedTuple):
    """A picture, whether all its values are finite, the checker's scores, and the classifier's input."""

    pixels: jax.Array  # (1, height, width, 3) uint8
    finite: jax.Array  # (1,) bool
    scores: jax.Array  # (1, concepts) float32; no concepts without a safety checker
    classifier_input: jax.Array  # (1, h, w, 3) float32, for the picture classifier; (1, 0) without one


def encode(  # noqa: PLR0917 – one text's arrays, in the order of `text_arrays`
    networks: Networks,
    parameters: Sequence[WithLoras],
    ids: jax.Array,
    weights: jax.Array,
    chunks: jax.Array,
    silent: jax.Array,
    lora_rows: jax.Array,
    lora_scales: jax.Array,
    *,
    counted_by_host: bool = False,
) -> Encoding:
    """Encode one text, chunk by chunk; `ids` is (1, encoders, most chunks, length).

    The encoders' widths are joined. The pooled encoding is the last encoder's, of the first chunk. With
    `counted_by_host` chunks that the text does not have are encoded too, and replaced by zeros.
    """
    encoders = [
        blueprint.adapted(weights, bank, lora_rows, lora_scales)
        for blueprint, (weights, bank) in zip(networks.text_encoders, parameters, strict=True)
    ]
    _, _, most, length = ids.shape

    def encode_chunk(chunk: jax.Array) -> tuple[jax.Array, jax.Array]:
        row = jax.lax.dynamic_index_in_dim(ids[0], chunk, axis=1, keepdims=False)
        outputs = [
            encoder(row[index][None], penultimate=networks.penultimate)
            for index, encoder in enumerate(encoders)
        ]
        factors = jax.lax.dynamic_index_in_dim(weights[0], chunk, keepdims=True)
        hidden = [
            apply_weights(states.astype(jnp.float32), factors).astype(states.dtype) for states, _ in outputs
        ]
        return jnp.concatenate(hidden, axis=-1), outputs[-1][1][:, : None if networks.takes_sizes else 0]

    def write(chunk: jax.Array, before: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        hidden, first_pooled = before
        states, pooled = encode_chunk(chunk)
        if counted_by_host:
            states = jnp.where(chunk < chunks[0], states, 0)
        return jax.lax.dynamic_update_slice_in_dim(hidden, states, chunk, 0), jnp.where(
            chunk == 0, pooled, first_pooled
        )

    hidden_shape, pooled_shape = jax.eval_shape(encode_chunk, chunks[0])
    empty_hidden = jnp.zeros((most, *hidden_shape.shape[1:]), hidden_shape.dtype)
    empty_pooled = jnp.zeros(pooled_shape.shape, pooled_shape.dtype)
    turns = most if counted_by_host else chunks[0]
    hidden, pooled = jax.lax.fori_loop(0, turns, write, (empty_hidden, empty_pooled))
    audible = ~silent[0]
    return Encoding(
        hidden=jnp.where(audible, hidden, 0).reshape(1, most * length, -1),
        pooled=jnp.where(audible, pooled, 0),
        length=jnp.maximum(chunks, 1) * length,
    )


def begin(  # noqa: PLR0917 – one picture's arrays
    networks: Networks,
    latents_shape: tuple[int, ...],
    parameters: Parameters,
    pixels: jax.Array,
    mask: jax.Array,
    seed: jax.Array,
) -> StartPicture:
    """Encode `pixels` (1, H, W, 3) uint8, of which `mask` (1, H, W) bool is repainted.

    The latents are drawn from the encoder's distribution, and the mask of a latent pixel is that of its
    first pixel, as in the reference. A UNet with further input channels sees the mask and the latents of the
    kept part, and paints the whole picture itself: nothing is blended in.
    """
    autoencoder = networks.vae.module(parameters)

    def draw(picture: jax.Array, purpose: int) -> jax.Array:
        mean, log_variance = (moments.astype(jnp.float32) for moments in autoencoder.encode(picture))
        noise = fresh_noise(seed[0], jnp.uint32(purpose), latents_shape[1:])[None]
        drawn: jax.Array = (mean + jnp.exp(0.5 * log_variance) * noise) * networks.scaling_factor
        return drawn

    picture = pixels.astype(jnp.float32) / 127.5 - 1.0
    factor = pixels.shape[1] // latents_shape[1]
    small = mask[:, ::factor, ::factor, None].astype(jnp.float32)
    drawn = draw(picture, OF_START_PICTURE)
    if not networks.further_channels:
        return StartPicture(latents=drawn, mask=small, channels=jnp.zeros((*small.shape[:3], 0)))
    background = draw(jnp.where(mask[..., None], 0.0, picture), OF_KEPT_PICTURE)
    channels = jnp.concatenate([small, background], axis=-1)
    return StartPicture(latents=drawn, mask=jnp.ones_like(small), channels=channels)


def noise_alone(networks: Networks, latents_shape: tuple[int, ...]) -> StartPicture:
    """Return the start of pictures that start from noise alone; `latents_shape` is (n, h, w, c)."""
    count, height, width, _ = latents_shape
    return StartPicture(
        latents=jnp.zeros(latents_shape),
        mask=jnp.ones((count, height, width, 1)),
        channels=jnp.zeros((count, height, width, networks.further_channels)),
    )


def empty(networks: Networks, shapes: SeatState, seats: int) -> SeatState:
    """Return the state of so many empty seats; `shapes` has the other axes and the dtypes of its arrays."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros((seats, *leaf.shape[1:]), leaf.dtype), shapes)
    start = noise_alone(networks, (seats, *shapes.sampler.x.shape[1:]))
    return cast("SeatState", zeros._replace(inputs=zeros.inputs._replace(start=start)))


def admit(  # noqa: PLR0917 – a request's arrays, in the order in which they are made
    networks: Networks,
    parameters: WithLoras,
    state: SeatState,
    negative: Encoding,
    positive: Encoding,
    start: StartPicture,
    newcomer: Newcomer[jax.Array],
) -> SeatState:
    """Write the newcomer into its seat; nothing of the seat's last request is left."""

    guided = state.inputs.conditioning.lengths.shape[1] == 2
    texts = (negative, positive) if guided else (positive,)
    row, seat = seat_row(networks, parameters, texts, start, newcomer), newcomer.seat[0]
    written: SeatState = jax.tree.map(
        lambda rows, one: jax.lax.dynamic_update_slice_in_dim(rows, one, seat, 0), state, row
    )
    return written


def seat_row(
    networks: Networks,
    parameters: WithLoras,
    texts: Sequence[Encoding],
    start: StartPicture,
    newcomer: Newcomer[jax.Array],
) -> SeatState:
    """Return the state of one seat with a newcomer: latents, keys and values of its texts, its table."""
    shape = start.latents.shape[1:]
    noise = initial_noise(newcomer.seed[0], shape)
    noise = varied_noise(noise, newcomer.variation_seeds[0], newcomer.variation_strengths[0])[None]
    x = newcomer.init_latent_scale[0] * start.latents + newcomer.init_noise_sigma[0] * noise
    hidden = jnp.concatenate([text.hidden for text in texts])
    lengths = jnp.concatenate([text.length for text in texts])
    unet = networks.unet.adapted(*parameters, newcomer.lora_rows, newcomer.lora_scales)
    keys_values: KeysValues = dict(
        unet.project(hidden, lengths if networks.takes_lengths else None).keys_values
    )
    inputs = SeatInputs(
        noise=noise,
        start=start,
        conditioning=Conditioning(
            keys_values=jax.tree.map(lambda rows: rows[None], keys_values),
            lengths=jnp.stack([text.length for text in texts], axis=1),
            text_embeds=jnp.stack([text.pooled for text in texts], axis=1),
            time_ids=newcomer.time_ids,
            lora_rows=newcomer.lora_rows,
            lora_scales=newcomer.lora_scales,
        ),
        seed=newcomer.seed,
        rows=newcomer.rows,
    )
    sampler = SamplerState(x=x, r=jnp.zeros_like(x), history=step.empty_history(x))
    return SeatState(sampler=sampler, inputs=inputs)


def take(x: jax.Array, seat: jax.Array) -> jax.Array:
    """Return the latents (1, h, w, c) in `seat` (1,) of `x` (seats, h, w, c)."""
    return jax.lax.dynamic_slice_in_dim(x, seat[0], 1)


def decode(
    networks: Networks,
    parameters: tuple[Parameters, Parameters | None],
    latents: jax.Array,
    *,
    in_float32: bool = False,
) -> Decoded:
    """Decode the latents (1, h, w, c) of a picture, and score the picture.

    `parameters` are the autoencoder's and the safety checker's. With `in_float32` the autoencoder computes in
    float32, whatever the dtype of its parameters.
    """
    of_vae, of_checker = parameters
    if in_float32:
        enlarged = {key: array.astype(jnp.float32) for key, array in of_vae.items()}
        autoencoder = networks.vae_in_float32.module(enlarged)
    else:
        autoencoder = networks.vae.module(of_vae)

    picture = autoencoder.decode(latents / networks.scaling_factor)
    pixels = to_uint8(to_unit(picture))
    scores = safety_scores(networks.safety_checker, networks.preprocessing, of_checker, pixels)
    finite = jnp.isfinite(picture).all(axis=(1, 2, 3))
    return Decoded(
        pixels=pixels,
        finite=finite,
        scores=scores,
        classifier_input=classifier_input(networks.of_classifier, pixels),
    )


def to_unit(picture: jax.Array) -> jax.Array:
    """Map the decoder's range of -1 to 1 to float32 from 0 to 1."""
    return jnp.clip(picture.astype(jnp.float32) / 2 + 0.5, 0.0, 1.0)


def to_uint8(picture: jax.Array) -> jax.Array:
    """Map 0 to 1 to whole numbers from 0 to 255, rounded as the reference rounds."""
    return jnp.round(picture * 255).astype(jnp.uint8)
