"""One model on the devices: its parameters, its text encoder's program, and requests made ready for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from flax import nnx

from sdjax_engine import devices
from sdjax_engine.planner import Planner
from sdjax_engine.programs import Compiler, Program
from sdjax_engine.request import Offer, Request, UnreadableCheckpoint
from sdjax_engine.samplers import MAX_ROWS, pipeline_config
from sdjax_engine.weights import Checkpoint


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """All that the devices must be told of a request.

    `token_ids` is (2, length), the negative prompt's and the prompt's; `rows` is the sampler's table of
    `evaluations` rows, filled up to (MAX_ROWS, ROW).
    """

    request: Request
    token_ids: npt.NDArray[np.int32] = field(repr=False)
    rows: npt.NDArray[np.float32] = field(repr=False)
    evaluations: int
    init_noise_sigma: float


class LoadedModel:
    """A checkpoint whose parameters lie on every device of the compiler's mesh, its text encoder compiled.

    Raises UnreadableCheckpoint where the offer does not suit the checkpoint.
    """

    def __init__(self, offer: Offer, checkpoint: Checkpoint, compiler: Compiler) -> None:
        _check_sizes(offer, checkpoint.vae_scale_factor)
        self.offer = offer
        self.mesh = compiler.mesh
        self.unet = checkpoint.unet
        self.vae = checkpoint.vae
        self.latent_channels = checkpoint.latent_channels
        self.vae_scale_factor = checkpoint.vae_scale_factor
        self.scaling_factor = checkpoint.scaling_factor
        self._text_encoder = checkpoint.text_encoder
        self._tokenizer = checkpoint.tokenizer
        self._planner = Planner(offer, pipeline_config(checkpoint.scheduler_config))
        self._encode = self._compile_encode(compiler)

    def prepare(self, request: Request) -> Prepared:
        """Check, tokenize and plan; raises InvalidRequest. May be called from any thread."""
        self.offer.check(request)
        texts = (request.negative_prompt, request.prompt)
        table = self._planner.table(request)
        return Prepared(
            request=request,
            token_ids=np.stack([self._tokenizer.encode(text) for text in texts]),
            rows=table.padded(MAX_ROWS),
            evaluations=table.evaluations,
            init_noise_sigma=table.init_noise_sigma,
        )

    def no_token_ids(self) -> npt.NDArray[np.int32]:
        """Ids (devices, 2, length) to be filled in: one pair of prompts for each device."""
        return np.zeros((devices.device_count(self.mesh), 2, self._tokenizer.length), np.int32)

    def encode(self, token_ids: npt.NDArray[np.int32]) -> jax.Array:
        """The encodings (devices, 2, length, width) of one pair of prompts on each device."""
        encodings: jax.Array = self._encode(self._text_encoder.state, devices.shard(token_ids, self.mesh))
        return encodings

    def _compile_encode(self, compiler: Compiler) -> Program:
        graphdef = self._text_encoder.graphdef

        def encode(parameters: Any, token_ids: jax.Array) -> jax.Array:
            encodings: jax.Array = nnx.merge(graphdef, parameters)(token_ids[0])
            return encodings[None]

        return compiler.compile(
            f"{self.offer.model} encode",
            encode,
            self._text_encoder.state,
            devices.shard(self.no_token_ids(), self.mesh),
            specs=(devices.REPLICATED, devices.BY_SEAT),
        )


def _check_sizes(offer: Offer, multiple: int) -> None:
    wrong = [f"{width}x{height}" for width, height in offer.sizes if width % multiple or height % multiple]
    if wrong:
        raise UnreadableCheckpoint(
            f"{offer.model} cannot be painted in {', '.join(wrong)}: its autoencoder makes pictures whose "
            f"sides are multiples of {multiple}."
        )
