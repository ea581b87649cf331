"""One model on the devices: its parameters, its text encoders' program, and requests made ready for it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from sdjax_engine.compiling.compiler import Compiler, Program, working_memory
from sdjax_engine.denoising.arithmetic import Decoder, Judge, Network, Project
from sdjax_engine.denoising.state import Conditioning, Encoding, KeysValues
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.encodings import REMEMBERED, Encoder, Text, TextEncodings, encode_text, text_arrays
from sdjax_engine.model.loras import TEXT_ENCODERS, UNET, LoraBank
from sdjax_engine.model.pictures import Fitted, fitted
from sdjax_engine.model.planner import Planner
from sdjax_engine.model.prepared import Prepared, TextReader
from sdjax_engine.models.attended import Projection
from sdjax_engine.models.attention_backend import found_backend
from sdjax_engine.models.clip_pixels import clip_pixels, settle_preprocessing
from sdjax_engine.models.lora_bank import Bank
from sdjax_engine.models.safety_checker_config import CONCEPTS, is_found
from sdjax_engine.models.unet_config import cross_attentions
from sdjax_engine.prompts import apply_weights
from sdjax_engine.request import (
    DevicesFailed,
    Lane,
    Offer,
    Request,
    SafetyScores,
    UnreadableCheckpoint,
)
from sdjax_engine.samplers import MAX_ROWS, pipeline_config
from sdjax_engine.weights import Checkpoint, Parameters
from sdjax_engine.weights.networks import autoencoder_in_float32
from sdjax_engine.wording import in_bytes


class ModelArrays(NamedTuple):
    """All that a model's programs compute with: the parameters of its networks, and its LoRAs' rows."""

    text_encoders: tuple[Parameters, ...]
    unet: Parameters
    vae: Parameters
    safety_checker: Parameters | None
    banks: Mapping[str, Bank]

    @property
    def of_texts(self) -> list[tuple[Parameters, Bank]]:
        """What encodes texts."""
        banks = (self.banks.get(name, {}) for name in TEXT_ENCODERS)
        return list(zip(self.text_encoders, banks, strict=False))

    @property
    def of_network(self) -> tuple[Parameters, Bank]:
        """What `network` computes with."""
        return self.unet, self.banks.get(UNET, {})

    @property
    def of_decoding(self) -> tuple[Parameters, Parameters | None]:
        """What works on a finished picture."""
        return self.vae, self.safety_checker


class LoadedModel:
    """A checkpoint whose parameters `residency` holds.

    Raises UnreadableCheckpoint where the offer does not suit the checkpoint, DevicesFailed where the devices
    can never hold it.
    """

    def __init__(
        self,
        offer: Offer,
        checkpoint: Checkpoint,
        compiler: Compiler,
        loras: LoraBank | None = None,
        residency: Residency | None = None,
    ) -> None:
        _check_sizes(offer, checkpoint.vae_scale_factor)
        self.offer = offer
        self.mesh = compiler.mesh
        self.unet = checkpoint.unet
        self.vae = checkpoint.vae
        self.latent_channels = checkpoint.latent_channels
        self.vae_scale_factor = checkpoint.vae_scale_factor
        self.scaling_factor = checkpoint.scaling_factor
        self.loras = loras or LoraBank()
        self._checkpoint = checkpoint
        self._texts = TextReader(checkpoint, offer.prompt_chunks, self.loras)
        judged = checkpoint.safety_checker is not None
        self._preprocessing = settle_preprocessing(checkpoint.preprocessor_config) if judged else None
        config = checkpoint.unet.config
        self.further_channels = int(config["in_channels"]) - self.latent_channels
        self._told_sizes = config.get("addition_embed_type") == "text_time"
        self._told_guidance = config.get("time_cond_proj_dim") is not None
        schedule = pipeline_config(checkpoint.scheduler_config, pipeline=checkpoint.pipeline)
        self._planner = Planner(offer, schedule)
        self.residency = residency or Residency(compiler.mesh)
        self._held = self.residency.adopt(offer.model, self._gathered())
        self._compiler = compiler
        self._encode_lock = threading.Lock()
        self._encode: tuple[TextEncodings, Encoding] | None = None

    @property
    def encodings(self) -> TextEncodings:
        """The encodings of its texts; their program is made when they are first wanted."""
        return self._made_encode[0]

    @property
    def encoding(self) -> Encoding:
        """The form of one text's encoding for each device, as shapes."""
        return self._made_encode[1]

    @property
    def _made_encode(self) -> tuple[TextEncodings, Encoding]:
        with self._encode_lock:
            if self._encode is None:
                self._encode = self._compile_encode(self._compiler)
            return self._encode

    @property
    def arrays(self) -> ModelArrays:
        """What programs are called with; brought to the devices first if need be, by the engine's thread."""
        self.bring()
        arrays: ModelArrays = self._held.arrays
        return arrays

    @property
    def shapes(self) -> ModelArrays:
        """The same as shapes, for which programs are compiled wherever the parameters lie."""
        shapes: ModelArrays = self._held.shapes
        return shapes

    @property
    def fingerprint(self) -> str:
        """What tells its checkpoint from others."""
        return self._checkpoint.fingerprint

    @property
    def decodes_in_float32(self) -> bool:
        """Whether the autoencoder computes in float32 anyway."""
        return {str(shape.dtype) for shape in self.shapes.vae.values()} == {"float32"}

    def bring(self) -> None:
        """Make the parameters be on the devices, other models' being moved out where there is no room."""
        self.residency.bring(self.offer.model)

    def _gathered(self) -> ModelArrays:
        checker = self._checkpoint.safety_checker
        return ModelArrays(
            text_encoders=tuple(each.component.parameters for each in self._checkpoint.text_encoders),
            unet=self.unet.parameters,
            vae=self.vae.parameters,
            safety_checker=None if checker is None else checker.parameters,
            banks=self.loras.banks,
        )

    @property
    def facts(self) -> object:
        """What the model's programs depend on beside their arguments, as plain data."""
        checkpoint = self._checkpoint
        networks = {"unet": checkpoint.unet, "vae": checkpoint.vae, "checker": checkpoint.safety_checker}
        networks |= {str(index): each.component for index, each in enumerate(checkpoint.text_encoders)}
        configs = {name: each.config for name, each in networks.items() if each is not None}
        rest = checkpoint.preprocessor_config, self.offer.prompt_chunks, found_backend().facts
        return [checkpoint.pipeline, configs, *rest]

    @property
    def no_text(self) -> Text:
        """The text of a device to which nobody comes."""
        return self._texts.no_text

    def halves(self, lane: Lane) -> int:
        """How often a picture of this lane asks the network: twice where guidance needs an opposite.

        A network that was taught what guidance does is told its scale instead.
        """
        return 2 if lane.guided and not self._told_guidance else 1

    def prepare(self, request: Request, start: Fitted | None = None) -> Prepared:
        """Check, tokenize and plan; raises InvalidRequest. May be called from any thread.

        `start` is what `fitted` makes of the request, where that is known already.
        """
        self.offer.check(request)
        table = self._planner.table(request)
        negative, negative_facts = self._texts.read(request.negative_prompt, request.loras, negative=True)
        positive, facts = self._texts.read(request.prompt, request.loras)
        if self.halves(request.lane) == 1:
            negative = positive
        return Prepared(
            request=request,
            texts=(negative, positive),
            facts=(negative_facts, facts),
            picture=start or fitted(request),
            rows=table.padded(MAX_ROWS),
            evaluations=table.evaluations,
            init_noise_sigma=table.init_noise_sigma,
            init_latent_scale=table.init_latent_scale,
            time_ids=self.time_ids(request.height, request.width),
            loras=self.loras.seat_rows(request.loras),
        )

    def time_ids(self, height: int, width: int) -> tuple[float, ...]:
        """What a network that is told sizes hears of a picture that was neither resized nor cropped."""
        return (height, width, 0, 0, height, width) if self._told_sizes else ()

    def network(self, arrays: tuple[Any, Bank]) -> Network:
        """The denoising network over `ModelArrays.of_network`, as `painting` asks it; to be traced."""

        def ask(
            sample: jax.Array, timesteps: jax.Array, guidance_scale: jax.Array, told: Conditioning
        ) -> jax.Array:
            unet = self.unet.blueprint.adapted(*arrays, told.lora_rows, told.lora_scales)
            further: dict[str, jax.Array] = {}
            if self._told_sizes:
                further |= {"text_embeds": told.text_embeds, "time_ids": told.time_ids}
            if self._told_guidance:
                further["guidance"] = guidance_scale
            prompt = Projection(told.keys_values, self._lengths(told.lengths))
            predicted: jax.Array = unet(sample, timesteps, prompt, **further)
            return predicted

        return ask

    def project(self, arrays: tuple[Any, Bank]) -> Project:
        """What that network's layers make of texts; to be traced."""

        def make(
            hidden: jax.Array, lengths: jax.Array, lora_rows: jax.Array, lora_scales: jax.Array
        ) -> KeysValues:
            unet = self.unet.blueprint.adapted(*arrays, lora_rows, lora_scales)
            return dict(unet.project(hidden, self._lengths(lengths)).keys_values)

        return make

    @property
    def widths_of_keys_values(self) -> dict[str, int]:
        """How wide the keys and values are of each layer that attends to the prompt, by its place."""
        parameters = self.shapes.unet
        places = cross_attentions(parameters, self.unet.config)
        return {place: parameters[f"{place}.to_k.kernel"].shape[-1] for place in places}

    def _lengths(self, lengths: jax.Array) -> jax.Array | None:
        """The texts' lengths where they may differ."""
        return lengths if self.offer.prompt_chunks > 1 else None

    def decoder(self, parameters: Any, *, in_float32: bool = False) -> tuple[Decoder, Judge | None]:
        """The picture decoder and the safety checker over `ModelArrays.of_decoding`; for traced functions.

        With `in_float32` the decoder computes in float32, whatever the autoencoder's own dtype is.
        """
        of_vae, of_checker = parameters
        if in_float32:
            enlarged = {key: array.astype(jnp.float32) for key, array in of_vae.items()}
            decode: Decoder = autoencoder_in_float32(self.vae.config).module(enlarged).decode
        else:
            decode = self.vae.module(of_vae).decode
        checker, preprocessing = self._checkpoint.safety_checker, self._preprocessing
        if checker is None or preprocessing is None:
            return decode, None
        network = checker.module(of_checker)
        return decode, lambda pictures: jnp.concatenate(
            network(clip_pixels(pictures, preprocessing)), axis=-1
        )

    def _compile_encode(self, compiler: Compiler) -> tuple[TextEncodings, Encoding]:
        components = [encoder.component for encoder in self._checkpoint.text_encoders]
        penultimate, lora_rank = self._checkpoint.penultimate, self.loras.rank_of_texts

        def encode(arrays: Sequence[tuple[Any, Bank]], *text: jax.Array) -> Encoding:
            *text_alone, rows, scales = text
            networks = [
                component.blueprint.adapted(parameters, bank, rows, scales)
                for component, (parameters, bank) in zip(components, arrays, strict=True)
            ]

            def encoder(network: Any) -> Encoder:
                return lambda ids: network(ids, penultimate=penultimate)

            made = [encoder(each) for each in networks]
            return encode_text(made, _weigh, *text_alone, pooled=self._told_sizes)

        no_texts = text_arrays({}, devices.device_count(self.mesh), self._texts.shape, lora_rank)
        program: Program = compiler.compile(
            f"{self.offer.model} encode",
            encode,
            self.shapes.of_texts,
            *(devices.spread_shape(rows.shape, rows.dtype, self.mesh) for rows in no_texts),
            specs=(devices.REPLICATED, *[devices.BY_SEAT] * 6),
            facts=self.facts,
            retry_shortage=True,
        )
        self._claim_texts(program)
        encodings = TextEncodings(
            self.mesh,
            lambda *text: program(self.arrays.of_texts, *text),
            ids_shape=self._texts.shape,
            lora_rank=lora_rank,
        )
        encoding: Encoding = jax.tree.map(
            lambda leaf: devices.spread_shape(leaf.shape, leaf.dtype, self.mesh), program.out_info
        )
        return encodings, encoding

    def _claim_texts(self, program: Program) -> None:
        """Reserve memory for the encodings that each device may come to remember."""
        of_one = sum(leaf.size * leaf.dtype.itemsize for leaf in program.out_info)
        held = REMEMBERED * of_one // devices.device_count(self.mesh)
        need = Need(held=held, working=working_memory(program))
        if not self.residency.claim(f"texts of {self.offer.model}", need):
            raise DevicesFailed(
                f"A device has no room for {self.offer.model}, {in_bytes(self._held.size)}, beside "
                f"{in_bytes(held)} for its texts: offer a smaller model, or raise device_memory."
            )


def safety_scores(scores: npt.NDArray[np.float32]) -> SafetyScores:
    """Read a row of the safety checker: its concepts, then those that call for special care."""
    concepts, special_care = scores[:CONCEPTS], scores[CONCEPTS:]
    return SafetyScores(
        flagged=bool(np.asarray(is_found(concepts)).any()),
        concepts=tuple(map(float, concepts)),
        special_care=tuple(map(float, special_care)),
    )


def _weigh(hidden: jax.Array, weights: jax.Array) -> jax.Array:
    return apply_weights(hidden.astype(jnp.float32), weights).astype(hidden.dtype)


def _check_sizes(offer: Offer, multiple: int) -> None:
    wrong = [f"{width}x{height}" for width, height in offer.sizes if width % multiple or height % multiple]
    if wrong:
        raise UnreadableCheckpoint(
            f"{offer.model} cannot be painted in {', '.join(wrong)}: its autoencoder makes pictures whose "
            f"sides are multiples of {multiple}."
        )
