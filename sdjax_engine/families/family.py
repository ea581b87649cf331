"""What the engine asks of a family of checkpoints, and of the networks of one checkpoint.

A `Family` reads what the files of a checkpoint say. Its `Networks` are what the programs are traced with:
text encoders, a denoiser, an autoencoder. Trees of arrays that a family makes (`Tokens`, `Encoding`, the two
trees of `Conditioning`) are opaque to the engine, which copies, repeats, gathers and writes their leaves.

Arguments called `parameters` are those of the components that the object names. Functions marked *traced* are
pure functions of one device's arrays: no operation joins rows of different seats.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.models.lora_bank import Bank, LoraRows
from sdjax_engine.request import ControlType, Lane, Offer, PromptFacts, Request

Parameters = dict[str, jax.Array]
"""A network's parameters by their paths with dots, a plain tree."""
WithLoras = tuple[Parameters, Bank]
"""The parameters of a network, and the rows of the LoRAs that adapt it."""
VECTORS = "vectors"
"""The parameter of a text encoder, if it has embeddings, that has all their vectors: (rows, width)."""
Tokens = Any
"""One text for each device as the text encoders read it: a tree of arrays whose first axis is the device."""
Encoding = Any
"""The encoding of one text for each device: a tree of arrays whose first axis is the device."""


class Conditioning(NamedTuple):
    """A denoiser's inputs besides the noisy picture: two trees of the family's own.

    A seat has one text, or two in a guided lane: the negative prompt and the prompt. In the rows of an
    evaluation the leaves of both are (rows, …).
    """

    of_texts: Any  # leaves (seats, texts, …)
    of_picture: Any  # leaves (seats, …)


class Blueprint(Protocol):
    """Makes one network's module for use within one traced function."""

    def module(self, parameters: Mapping[str, Any]) -> Any:
        """Return the module over these parameters."""

    def adapted(self, parameters: Mapping[str, Any], bank: Bank, rows: jax.Array, scales: jax.Array) -> Any:
        """Return the module over these parameters with LoRAs attached."""


class Loaded(Protocol):
    """One network of a checkpoint: its complete configuration and how its module is made."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration with all its values."""

    @property
    def blueprint(self) -> Blueprint:
        """The construction of its module."""

    @property
    def in_float32(self) -> Blueprint:
        """The same for parameters and arithmetic in float32."""


class TextEncoders(Protocol):
    """The text encoders of a checkpoint, with their tokenizers."""

    @property
    def components(self) -> tuple[str, ...]:
        """The components whose parameters `encode` gets, in this order."""

    @property
    def most_skipped(self) -> int:
        """The largest `clip_skip`; 0 where no layers can be skipped."""

    @property
    def widths(self) -> Mapping[str, int]:
        """The widths of the vectors of embeddings, by component; empty where none can be in a prompt."""

    @property
    def most_vectors(self) -> int:
        """The most vectors of one embedding."""

    def read(self, prompt: str, *, negative: bool, clip_skip: int) -> tuple[Hashable, PromptFacts]:
        """Return a prompt as the encoders read it, and facts of it; equal texts have equal encodings.

        The encoding of a prompt is taken `clip_skip` layers before the usual one.
        """

    def tokens(self, texts: Mapping[int, Any], count: int) -> Tokens:
        """Return texts, as `read` returns them, as arrays of the host for `count` devices.

        `texts` are by the device's number; the rows of a device without a text are not used.
        """

    def encode(
        self, parameters: Sequence[WithLoras], tokens: Tokens, loras: LoraRows, *, counted_by_host: bool
    ) -> Encoding:
        """*Traced:* encode one text; with `counted_by_host` without a loop whose end the device computes."""


class Controlled(NamedTuple):
    """What a ControlNet needs at an evaluation: its parameters, and its own conditioning by row."""

    parameters: Parameters
    conditioning: Conditioning


class Control(Protocol):
    """ControlNets of one architecture, which hold a picture to a control picture."""

    @property
    def types(self) -> Mapping[ControlType, int]:
        """The number of each type of control pictures that they know; any type has 0 if they know one."""

    def condition(
        self, parameters: Parameters, picture: jax.Array, kind: jax.Array, texts: Sequence[Encoding]
    ) -> Conditioning:
        """*Traced:* return what one seat keeps of its control picture and its `texts` for all evaluations.

        `picture` is (1, H, W, 3) uint8, `kind` (1,) int32 the number of its type.
        """

    def predict(
        self,
        parameters: WithLoras,
        sample: jax.Array,
        table: jax.Array,
        conditioning: Conditioning,
        loras: LoraRows,
        *,
        control: Controlled,
    ) -> jax.Array:
        """*Traced:* return what `Denoiser.predict` returns, held to a control picture.

        Its strength is that of the `table`.
        """


class ImagePromptParameters(NamedTuple):
    """The parameters of the networks of an image prompt."""

    encoder: Parameters
    projection: Parameters
    attentions: Parameters


class ImagePrompts(Protocol):
    """What makes a picture a prompt, beside the text."""

    @property
    def side(self) -> int:
        """The pixels of a side of the square pictures that `encode` gets."""

    def encode(self, parameters: ImagePromptParameters, pixels: jax.Array, absent: jax.Array) -> Encoding:
        """*Traced:* encode the picture of each device, (1, side, side, 3) uint8.

        Where `absent` (1,) bool says so it is the encoding of no picture, which is that of negative prompts.
        """

    def condition(
        self, parameters: ImagePromptParameters, pictures: Sequence[Encoding], strength: jax.Array
    ) -> Conditioning:
        """*Traced:* return what one seat keeps of the encoded picture of each text, for all evaluations.

        `strength` is (1,) float32; with 0 the picture changes nothing.
        """

    def joined(self, conditioning: Conditioning, image: Conditioning) -> Conditioning:
        """Return the denoiser's conditioning with that of an image prompt, for `predict`; no arithmetic."""


class Denoiser(Protocol):
    """The network that is evaluated for each step."""

    @property
    def component(self) -> str:
        """The component whose parameters the methods get."""

    @property
    def further_channels(self) -> int:
        """Its input channels beyond the latents': mask and latents of the kept part; 0 unless it inpaints."""

    def condition(
        self,
        parameters: WithLoras,
        texts: Sequence[Encoding],
        loras: LoraRows,
        size: tuple[int, int],
        references: Sequence[jax.Array],
    ) -> Conditioning:
        """*Traced:* return what one seat keeps of its `texts` for all evaluations of a picture.

        `texts` are the prompt alone, or the negative prompt and the prompt. `size` is (height, width) in
        pixels. `references` are reference pictures as the autoencoder encodes them, (1, h, w, c) each; there
        are none unless `Networks.most_references` allows them. The shapes of all seats are found in this
        function's compiled program.
        """

    def predict(
        self,
        parameters: WithLoras,
        sample: jax.Array,
        table: jax.Array,
        conditioning: Conditioning,
        loras: LoraRows,
    ) -> jax.Array:
        """*Traced:* return the network's output m for every row, (rows, h, w, c) float32, without guidance.

        `sample` (rows, h, w, c + further channels) is the scaled input, `table` (rows, ROW) the sampler's row
        of each (`samplers.tables.Column`). The `conditioning` is by row, the `loras` by row or, where each
        seat has the same number of consecutive rows, by seat.
        """


class Autoencoder(Protocol):
    """From pictures to the latents that the sampler integrates, and back."""

    @property
    def component(self) -> str:
        """The component whose parameters the methods get."""

    def encode(self, parameters: Parameters, picture: jax.Array, noise: jax.Array) -> jax.Array:
        """*Traced:* return latents (1, h, w, c), drawn with `noise`, of a picture (1, H, W, 3), -1 to 1."""

    def decode(self, parameters: Parameters, latents: jax.Array, *, in_float32: bool) -> jax.Array:
        """*Traced:* return the picture (1, H, W, 3) from -1 to 1 of latents (1, h, w, c).

        With `in_float32` it computes in float32, whatever the dtype of its parameters.
        """


@dataclass(frozen=True, kw_only=True)
class Latents:
    """The latents that the sampler integrates: `channels` of one for each `cell` by `cell` pixels.

    The sides of pictures are multiples of `multiple` pixels. `colours` (channels + 1, 3) is the linear map to
    RGB of coarse previews, None where it is not known.
    """

    cell: int
    channels: int
    multiple: int
    colours: npt.NDArray[np.float64] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """How a denoiser is guided by a request's scale.

    `by_negative`: the evaluation of a guided picture has a second row, for the negative prompt. Otherwise a
    lane has one text. `given`: the network is given the scale, in every evaluation. `added` is added to the
    scale of a guided request to get the factor of the mix, which is 1 without guidance.
    """

    by_negative: bool = True
    given: bool = False
    added: float = 0.0

    def scale(self, request: Request) -> float:
        """Return the number of a table's guided evaluations for a request's scale."""
        return request.guidance_scale + self.added if request.guided else request.guidance_scale

    def texts(self, lane: Lane) -> int:
        """Return how many texts a picture of this lane has: with two, the negative prompt is the first."""
        return 2 if lane.guided and self.by_negative else 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Networks:
    """The networks of one checkpoint without their parameters: what programs are traced with.

    `control` is None without ControlNets, `image_prompts` where pictures are no prompts. `most_references` is
    how many reference pictures the denoiser can be shown.
    """

    texts: TextEncoders
    denoiser: Denoiser
    autoencoder: Autoencoder
    latents: Latents
    guidance: Guidance
    control: Control | None = None
    image_prompts: ImagePrompts | None = None
    most_references: int = 0


class Parts(Protocol):
    """What the files of a checkpoint hold, before or after tensors are read."""

    @property
    def pipeline(self) -> str:
        """The reference's class."""

    @property
    def index(self) -> Mapping[str, Any]:
        """What model_index.json says besides the components."""

    @property
    def components(self) -> Mapping[str, Loaded]:
        """The networks by their names in model_index.json."""

    @property
    def controlnets(self) -> Mapping[str, Loaded]:
        """The ControlNets that are offered with the checkpoint, by their names in the offer."""

    @property
    def image_prompt(self) -> Mapping[str, Loaded]:
        """The networks of image prompts by the fields of `ImagePromptParameters`; empty without."""

    @property
    def embeddings(self) -> Mapping[str, range]:
        """The rows of each embedding's vectors in `VECTORS`, by the names that people type."""

    @property
    def tokenizers(self) -> tuple[Any, ...]:
        """The tokenizers, as the family reads them."""

    @property
    def known_words(self) -> frozenset[str]:
        """All words that the checkpoint knows, in lower case; empty for any."""


class ForeignNames(Protocol):
    """How other programs name the layers of the denoiser, in files of its weights and of LoRAs."""

    def current_names(self, name: str) -> tuple[str, ...]:
        """Return today's names of a tensor in a single file of the denoiser: none if it is not used.

        Of several names each is an equal share of the tensor's rows.
        """

    def halves_exchanged(self, name: str, config: Mapping[str, Any]) -> bool:
        """Return whether a single file has the second half of this tensor's rows first.

        `config` is the denoiser's configuration.
        """

    def spellings(self, path: str) -> Iterable[str]:
        """Return all spellings of the layer at this path."""

    def exchanged_spellings(self, paths: Iterable[str]) -> Mapping[str, str]:
        """Return further spellings of layers of which a file has the second half of the rows first."""

    def joint_spellings(self, paths: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
        """Return further spellings, with the layers whose tensor it is; each has an equal share of its rows.

        They count only where none of these layers has tensors of its own.
        """


class Family(Protocol):
    """Checkpoints whose files are read in one way."""

    @property
    def pipelines(self) -> tuple[str, ...]:
        """The reference's classes of such checkpoints."""

    @property
    def optional(self) -> frozenset[str]:
        """Return the networks and tokenizers that a checkpoint may lack."""

    @property
    def adaptable(self) -> tuple[str, ...]:
        """The components that LoRAs may adapt, the denoiser first."""

    @property
    def foreign_names(self) -> ForeignNames | None:
        """How other programs name the denoiser's layers; None for the ways of Stable Diffusion's files."""

    def classes(self, pipeline: str) -> Mapping[str, tuple[str, ...]]:
        """Return the networks of a pipeline by their names in model_index.json.

        Of each the classes that it may have there; the first is the class in `models`.
        """

    def tokenizers(self, pipeline: str) -> Mapping[str, tuple[str, ...]]:
        """Return the tokenizers of a pipeline by their names, and the classes that each may have."""

    def read_tokenizer(self, folder: Path) -> Any:
        """Return the tokenizer in a folder; raises UnreadableCheckpoint."""

    def clashes(self, parts: Parts) -> Iterable[str]:
        """Return what does not fit together, as clauses; may raise UnreadableCheckpoint."""

    def native_size(self, configs: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
        """Return (width, height) in pixels that the networks of these configurations were trained at.

        Raises UnreadableCheckpoint for an impossible size.
        """

    def most_skipped(self, configs: Mapping[str, Mapping[str, Any]]) -> int:
        """Return the largest `clip_skip` with text encoders of these configurations."""

    def usual_layer(self, configs: Mapping[str, Mapping[str, Any]]) -> int:
        """Return which layer of CLIP, counted from the last, which is 1, gives the encoding."""

    def corrections(self, pipeline: str) -> Mapping[str, Any]:
        """Return the values of scheduler_config.json that the reference's class decides by itself."""

    def defaults(
        self, pipeline: str, index: Mapping[str, Any], scheduler_config: Mapping[str, Any]
    ) -> tuple[int, float]:
        """Return the steps and the guidance that a checkpoint is painted with unless told otherwise.

        `index` is what model_index.json says besides the components.
        """

    def networks(self, parts: Parts, offer: Offer) -> Networks:
        """Return the networks of a checkpoint, as they are used for an offer; raises UnreadableCheckpoint."""
