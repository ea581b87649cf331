"""The functions that JAX traces, one for each compiled program, in the order of a picture's life.

encode     one text for each device → its encoding
condition  the encodings of one picture's references and texts → what its seat keeps of them
begin      a start picture and its mask → latents, mask and further input channels
control    a control picture and the encodings of the texts → what the seat keeps of them
look       a picture that is a prompt → its encoding
image      the encodings of one picture for each text → what the seat keeps of them
empty      the seats of a lane before any request
admit      one request for each device → its seat
take       the latents of one seat
decode     latents of some pictures → for each its pixels, whether they are finite, the safety checker's
           scores, the picture classifier's input

`write` writes the results of `control` and `image` into a seat. Between `admit` and `take` come the
evaluations of `denoising/evaluations.py`. `denoising/estimates.py` has the functions of previews. `encode`,
`condition`, `control`, `look`, `image` and what `begin` and `decode` do with the networks are the family's.

A function sees the rows of one device only, so the program of a device is the same for any number of devices.
No operation joins rows of different seats: a picture depends on its request only. Arguments that come before
the parameters, and keyword arguments, are fixed when a program is traced.

The host calls a program for the devices that need it. With `counted_by_host` a program has no branch, and no
loop whose end the device computes: a GPU decides these on the host, which then waits in every turn of a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp

from sdjax_engine.denoising.noise import (
    OF_KEPT_PICTURE,
    OF_START_PICTURE,
    fresh_noise,
    initial_noise,
    varied_noise,
)
from sdjax_engine.denoising.state import Newcomer, SamplerState, SeatInputs, SeatState, StartPicture
from sdjax_engine.families.family import (
    Autoencoder,
    Blueprint,
    Conditioning,
    Control,
    Denoiser,
    Encoding,
    ImagePromptParameters,
    ImagePrompts,
    Networks,
    Parameters,
    TextEncoders,
    Tokens,
    WithLoras,
)
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.models.pixels import Preprocessing, ViTPreprocessing, clip_pixels, vit_pixels
from sdjax_engine.samplers import step

Tree = TypeVar("Tree")


@dataclass(frozen=True, kw_only=True, eq=False)
class Judges:
    """What judges the finished pictures of a model: its safety checker, and a picture classifier's input."""

    safety_checker: Blueprint | None = None
    preprocessing: Preprocessing | None = None
    of_classifier: ViTPreprocessing | None = None

    def safety_scores(self, parameters: Parameters | None, pixels: jax.Array) -> jax.Array:
        """Return the safety checker's scores (n, concepts) of uint8 pixels (n, h, w, 3), or (n, 0)."""
        if self.safety_checker is None or self.preprocessing is None or parameters is None:
            return jnp.zeros((len(pixels), 0))
        inputs = clip_pixels(pixels.astype(jnp.float32) / 255, self.preprocessing)
        return jnp.concatenate(self.safety_checker.module(parameters)(inputs), axis=-1)


def classifier_input(preprocessing: ViTPreprocessing | None, pixels: jax.Array) -> jax.Array:
    """Return the classifier's input for uint8 pixels (n, h, w, 3); (n, 0) without a classifier."""
    return jnp.zeros((len(pixels), 0)) if preprocessing is None else vit_pixels(pixels, preprocessing)


def classify(blueprint: Blueprint, parameters: Parameters, inputs: jax.Array) -> jax.Array:
    """Return the probability of each label, float32 (1, labels), of `inputs` (1, h, w, 3)."""
    return jax.nn.softmax(blueprint.module(parameters)(inputs), axis=-1)


class Decoded(NamedTuple):
    """A picture, whether all its values are finite, the checker's scores, and the classifier's input."""

    pixels: jax.Array  # (1, height, width, 3) uint8
    finite: jax.Array  # (1,) bool
    scores: jax.Array  # (1, concepts) float32; no concepts without a safety checker
    classifier_input: jax.Array  # (1, h, w, 3) float32, for the picture classifier; (1, 0) without one


def encode(
    texts: TextEncoders,
    parameters: Sequence[WithLoras],
    tokens: Tokens,
    loras: LoraRows,
    *,
    counted_by_host: bool = False,
) -> Encoding:
    """Encode one text for each device."""
    return texts.encode(parameters, tokens, loras, counted_by_host=counted_by_host)


def condition(
    denoiser: Denoiser,
    size: tuple[int, int],
    references: int,
    parameters: WithLoras,
    loras: LoraRows,
    *given: Encoding,
) -> Conditioning:
    """Return the conditioning of one seat; `size` is (height, width) in pixels.

    Of what is `given` the first are so many `references`, encoded pictures (1, h, w, c), then come the texts.
    """
    return denoiser.condition(parameters, given[references:], loras, size, given[:references])


def control(
    networks: Control, parameters: Parameters, picture: jax.Array, kind: jax.Array, *texts: Encoding
) -> Conditioning:
    """Return a ControlNet's conditioning of one seat with this `picture` of this `kind`."""
    return networks.condition(parameters, picture, kind, texts)


def look(
    image_prompts: ImagePrompts, parameters: ImagePromptParameters, pixels: jax.Array, absent: jax.Array
) -> Encoding:
    """Encode the picture of each device, (1, side, side, 3) uint8, or none where it is `absent` (1,) bool."""
    return image_prompts.encode(parameters, pixels, absent)


def image(
    image_prompts: ImagePrompts, parameters: ImagePromptParameters, strength: jax.Array, *pictures: Encoding
) -> Conditioning:
    """Return the conditioning of one seat by an image prompt of this `strength` (1,) float32."""
    return image_prompts.condition(parameters, pictures, strength)


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
    first pixel, as in the reference. A network with further input channels sees the mask and the latents of
    the kept part, and paints the whole picture itself: nothing is blended in.
    """

    def draw(picture: jax.Array, purpose: int) -> jax.Array:
        noise = fresh_noise(seed[0], jnp.uint32(purpose), latents_shape[1:])[None]
        return networks.autoencoder.encode(parameters, picture, noise)

    picture = pixels.astype(jnp.float32) / 127.5 - 1.0
    factor = pixels.shape[1] // latents_shape[1]
    small = mask[:, ::factor, ::factor, None].astype(jnp.float32)
    drawn = draw(picture, OF_START_PICTURE)
    if not networks.denoiser.further_channels:
        return StartPicture(latents=drawn, mask=small, channels=jnp.zeros((*small.shape[:3], 0)))
    background = draw(jnp.where(mask[..., None], 0.0, picture), OF_KEPT_PICTURE)
    channels = jnp.concatenate([small, background], axis=-1)
    return StartPicture(latents=drawn, mask=jnp.ones_like(small), channels=channels)


def noise_alone(denoiser: Denoiser, latents_shape: tuple[int, ...]) -> StartPicture:
    """Return the start of pictures that start from noise alone; `latents_shape` is (n, h, w, c)."""
    count, height, width, _ = latents_shape
    return StartPicture(
        latents=jnp.zeros(latents_shape),
        mask=jnp.ones((count, height, width, 1)),
        channels=jnp.zeros((count, height, width, denoiser.further_channels)),
    )


def empty(denoiser: Denoiser, shapes: SeatState, seats: int) -> SeatState:
    """Return the state of so many empty seats; `shapes` has the other axes and the dtypes of its arrays."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros((seats, *leaf.shape[1:]), leaf.dtype), shapes)
    start = noise_alone(denoiser, (seats, *shapes.sampler.x.shape[1:]))
    return cast("SeatState", zeros._replace(inputs=zeros.inputs._replace(start=start)))


def admit(
    state: SeatState, conditioning: Conditioning, start: StartPicture, newcomer: Newcomer[jax.Array]
) -> SeatState:
    """Write the newcomer into its seat; nothing of the seat's last request is left."""
    return write(state, seat_row(conditioning, start, newcomer), newcomer.seat)


def write(seats: Tree, one: Tree, seat: jax.Array) -> Tree:
    """Write the arrays of one seat, each (1, …), into `seat` (1,) of the arrays of all seats."""
    written: Tree = jax.tree.map(
        lambda rows, row: jax.lax.dynamic_update_slice_in_dim(rows, row, seat[0], 0), seats, one
    )
    return written


def seat_row(conditioning: Conditioning, start: StartPicture, newcomer: Newcomer[jax.Array]) -> SeatState:
    """Return the state of one seat with a newcomer: latents, conditioning, its table."""
    shape = start.latents.shape[1:]
    noise = initial_noise(newcomer.seed[0], shape)
    noise = varied_noise(noise, newcomer.variation_seeds[0], newcomer.variation_strengths[0])[None]
    x = newcomer.init_latent_scale[0] * start.latents + newcomer.init_noise_sigma[0] * noise
    inputs = SeatInputs(
        noise=noise,
        start=start,
        conditioning=conditioning,
        loras=newcomer.loras,
        seed=newcomer.seed,
        rows=newcomer.rows,
    )
    sampler = SamplerState(x=x, r=jnp.zeros_like(x), history=step.empty_history(x))
    return SeatState(sampler=sampler, inputs=inputs)


def take(x: jax.Array, seat: jax.Array) -> jax.Array:
    """Return the latents (1, h, w, c) in `seat` (1,) of `x` (seats, h, w, c)."""
    return jax.lax.dynamic_slice_in_dim(x, seat[0], 1)


def decode(
    autoencoder: Autoencoder,
    judges: Judges,
    parameters: tuple[Parameters, Parameters | None],
    latents: jax.Array,
    *,
    in_float32: bool = False,
) -> Decoded:
    """Decode the latents (1, h, w, c) of a picture, and score the picture.

    `parameters` are the autoencoder's and the safety checker's. With `in_float32` the autoencoder computes in
    float32, whatever the dtype of its parameters.
    """
    of_autoencoder, of_checker = parameters
    picture = autoencoder.decode(of_autoencoder, latents, in_float32=in_float32)
    pixels = to_uint8(to_unit(picture))
    return Decoded(
        pixels=pixels,
        finite=jnp.isfinite(picture).all(axis=(1, 2, 3)),
        scores=judges.safety_scores(of_checker, pixels),
        classifier_input=classifier_input(judges.of_classifier, pixels),
    )


def to_unit(picture: jax.Array) -> jax.Array:
    """Map the decoder's range of -1 to 1 to float32 from 0 to 1."""
    return jnp.clip(picture.astype(jnp.float32) / 2 + 0.5, 0.0, 1.0)


def to_uint8(picture: jax.Array) -> jax.Array:
    """Map 0 to 1 to whole numbers from 0 to 255, rounded as the reference rounds."""
    return jnp.round(picture * 255).astype(jnp.uint8)
