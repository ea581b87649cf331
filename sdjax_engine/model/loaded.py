"""One model on the devices: its parameters, its networks and the cache of its texts' encodings."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh

from sdjax_engine.compiling.compiler import Compiler, Program, code_memory, working_memory
from sdjax_engine.compiling.per_device import Shares, call_on
from sdjax_engine.denoising import traced
from sdjax_engine.denoising.state import Encoding
from sdjax_engine.denoising.traced import Networks, WithLoras
from sdjax_engine.errors import DevicesFailed, UnreadableCheckpoint, in_bytes
from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Need, Residency
from sdjax_engine.model.loras import UNET, LoraBank
from sdjax_engine.model.picture_classifier import PictureClassifier
from sdjax_engine.model.prepare import Preparation
from sdjax_engine.models.attention_kernels import found_backend
from sdjax_engine.models.pixels import settle_preprocessing
from sdjax_engine.models.unet_config import cross_attentions
from sdjax_engine.prompts import TokenizedText
from sdjax_engine.request import WHOLE, Lane, Offer
from sdjax_engine.weights import Checkpoint, Component, Parameters
from sdjax_engine.weights.checkpoint import TEXT_ENCODERS
from sdjax_engine.weights.networks import autoencoder_in_float32

MOST_TEXTS = 256
"""How many texts' encodings are kept for each model; one of SD 1.x takes 240 kB for each chunk."""


class EncodingCache:
    """The encodings of the texts used last, for one model.

    `encode` calls the compiled program on some devices: it takes their numbers, the text encoders'
    parameters, and one text for each device as arrays whose first axis is the device. No call waits for the
    devices. One thread calls the methods.

    A known encoding saves 2.4 ms of the processor with the demo. Its key is the whole `TokenizedText`: ids,
    weights, and the rows and scales of LoRAs.
    """

    def __init__(
        self,
        mesh: Mesh,
        encode: Callable[..., Mapping[int, Encoding]],
        *,
        ids_shape: tuple[int, ...],
        lora_rank: int = 0,
        most_texts: int = MOST_TEXTS,
    ) -> None:
        self._devices = list(mesh.devices.flat)
        self._encode = encode
        self._ids_shape = ids_shape
        self._lora_rank = lora_rank
        self._most_texts = most_texts
        self._encodings: OrderedDict[TokenizedText, dict[Any, Encoding]] = OrderedDict()  # device → copy

    def clear(self) -> None:
        """Forget every text."""
        self._encodings.clear()

    def gather(self, parameters: Any, texts: Mapping[int, TokenizedText]) -> Shares:
        """Return the encodings of `texts`, each on the device of its text, by the device's number."""
        entries = {text: self._encodings[text] for text in texts.values() if text in self._encodings}
        missing: dict[TokenizedText, int] = {}
        for index, text in texts.items():
            if text not in entries:
                missing.setdefault(text, index)
        if missing:
            entries |= self._encoded(parameters, missing)
        copies = Shares(
            {index: on_device(self._devices[index], entries[text]) for index, text in texts.items()}
        )
        for text in texts.values():
            self._encodings[text] = entries[text]
            self._encodings.move_to_end(text)
        while len(self._encodings) > self._most_texts:
            self._encodings.popitem(last=False)
        return copies

    def _encoded(
        self, parameters: Any, texts: Mapping[TokenizedText, int]
    ) -> dict[TokenizedText, dict[Any, Encoding]]:
        """Encode each text on the device whose number it has: the first device that needs it."""
        by_device = {index: text for text, index in texts.items()}
        arrays = text_arrays(by_device, len(self._devices), self._ids_shape, self._lora_rank)
        encoded = self._encode(by_device.keys(), parameters, *arrays)
        return {text: {self._devices[index]: encoded[index]} for text, index in texts.items()}


def on_device(device: Any, copies: dict[Any, Encoding]) -> Encoding:
    """Return a text's encoding on a device, copied there from any other if need be."""
    if device not in copies:
        any_copy = next(iter(copies.values()))
        copies[device] = Encoding(*(jax.device_put(leaf, device) for leaf in any_copy))
    return copies[device]


def text_arrays(
    texts: Mapping[int, TokenizedText], count: int, ids_shape: tuple[int, ...], lora_rank: int = 0
) -> tuple[npt.NDArray[Any], ...]:
    """Return the texts of `count` devices as arrays: ids, weights, chunks, silent, LoRA rows and scales.

    `texts` are by the device's number; the rows of a device without a text are not to be used.
    """
    ids = np.zeros((count, *ids_shape), np.int32)
    weights = np.ones((count, *ids_shape[1:]), np.float32)
    chunks, silent = np.zeros(count, np.int32), np.zeros(count, np.bool_)
    lora_rows, lora_scales = np.zeros((count, lora_rank), np.int32), np.zeros((count, lora_rank), np.float32)
    for device, text in texts.items():
        ids[device] = np.frombuffer(text.ids, np.int32).reshape(ids_shape)
        weights[device] = np.frombuffer(text.weights, np.float32).reshape(ids_shape[1:])
        chunks[device], silent[device] = text.chunks, text.silent
        lora_rows[device] = np.frombuffer(text.lora_rows, np.int32)
        lora_scales[device] = np.frombuffer(text.lora_scales, np.float32)
    return ids, weights, chunks, silent, lora_rows, lora_scales


class ModelArrays(NamedTuple):
    """The arrays that a model's programs are called with, grouped by program.

    `text_encoders` are for `encode`, `unet` for `admit` and `denoise`, `decoding` for `decode`: the
    autoencoder's and the safety checker's. The autoencoder's are for `begin` too.
    """

    text_encoders: tuple[WithLoras, ...]
    unet: WithLoras
    decoding: tuple[Parameters, Parameters | None]


class LoadedModel:
    """A checkpoint whose parameters `residency` keeps on the devices or in the host's memory.

    `preparation` prepares its requests; `networks` are what its programs are traced with; `adapts_unet` says
    that a LoRA that it offers adapts the UNet. With a `preview_decoder`, whose parameters stay on the
    devices, lanes that are compiled afterwards decode their previews. Raises UnreadableCheckpoint where the
    offer does not suit the checkpoint, DevicesFailed where the devices can never hold it.
    """

    def __init__(
        self,
        offer: Offer,
        checkpoint: Checkpoint,
        compiler: Compiler,
        loras: LoraBank | None = None,
        residency: Residency | None = None,
        *,
        arrival: Hashable = None,
    ) -> None:
        check_sizes(offer, checkpoint.vae_scale_factor)
        check_guidance(offer, checkpoint.unet.config)
        self.offer = offer
        self.mesh = compiler.mesh
        self.device_count = devices.device_count(compiler.mesh)
        self.counted_by_host = devices.counts_on_host(compiler.mesh)
        self.loras = loras or LoraBank()
        self.adapts_unet = UNET in self.loras.banks
        self.networks = networks_of(checkpoint, offer)
        self.preparation = Preparation(offer, checkpoint, self.networks, self.loras)
        self.prepare = self.preparation.prepare
        self.latent_channels = checkpoint.latent_channels
        self.vae_scale_factor = checkpoint.vae_scale_factor
        self.checkpoint = checkpoint
        self.residency = residency or Residency(compiler.mesh)
        self.preview_decoder: Component | None = None
        self.classifier: PictureClassifier | None = None
        arrays = arrays_of(checkpoint, self.loras)
        self._parameters = self.residency.owner.do(
            lambda: self.residency.adopt(offer.model, arrays, arrival=arrival)
        )
        self._compiler = compiler
        self._encode_lock = threading.Lock()
        self._encode: tuple[EncodingCache, Encoding] | None = None

    def use_classifier(self, classifier: PictureClassifier) -> None:
        """Have the pictures of lanes that are compiled afterwards judged by this classifier."""
        self.classifier = classifier
        self.networks = replace(self.networks, of_classifier=classifier.preprocessing)

    @property
    def encodings(self) -> EncodingCache:
        """The encodings of its texts; their program is compiled when they are first needed."""
        return self._compiled_encode[0]

    @property
    def encoding(self) -> Encoding:
        """One text's encoding for each device, as shapes."""
        return self._compiled_encode[1]

    @property
    def arrays(self) -> ModelArrays:
        """The arguments of programs; RuntimeError where the parameters are not on the devices."""
        arrays: ModelArrays = self._parameters.arrays
        return arrays

    @property
    def shapes(self) -> ModelArrays:
        """The shapes of `arrays`, for which programs are compiled; known wherever the parameters are."""
        shapes: ModelArrays = self._parameters.shapes
        return shapes

    @property
    def decodes_in_float32(self) -> bool:
        """Whether the autoencoder computes in float32 anyway."""
        return {str(shape.dtype) for shape in self.shapes.decoding[0].values()} == {"float32"}

    @property
    def key(self) -> object:
        """What the model's programs depend on besides their arguments, as plain data."""
        checkpoint = self.checkpoint
        networks = {"unet": checkpoint.unet, "vae": checkpoint.vae, "checker": checkpoint.safety_checker}
        networks |= {str(index): each.component for index, each in enumerate(checkpoint.text_encoders)}
        configs = {name: each.config for name, each in networks.items() if each is not None}
        rest = checkpoint.preprocessor_config, self.offer.prompt_chunks, found_backend().key
        judged = [] if self.classifier is None else [self.classifier.key]
        return [checkpoint.pipeline, configs, *rest, *judged]

    def halves(self, lane: Lane) -> int:
        """How many texts a picture of this lane has: two with guidance, the negative prompt and the prompt.

        A UNet that is conditioned on the guidance scale needs no negative prompt.
        """
        return 2 if lane.guided and not self.networks.takes_guidance else 1

    @property
    def widths_of_keys_values(self) -> dict[str, int]:
        """The width of the keys and values of each layer that attends to the prompt, by its path."""
        parameters, _ = self.shapes.unet
        paths = cross_attentions(parameters, self.checkpoint.unet.config)
        return {path: parameters[f"{path}.to_k.kernel"].shape[-1] for path in paths}

    @property
    def _compiled_encode(self) -> tuple[EncodingCache, Encoding]:
        if self._encode is None:
            with self._encode_lock:
                self._encode = self._encode or self._compile_encode()
        return self._encode

    def forget_texts(self) -> None:
        """Drop the encodings of texts: work that failed on the devices may have made some of them."""
        if self._encode is not None:
            self._encode[0].clear()

    def release(self) -> None:
        """Free everything that it has on the devices and in the host's memory, and give back its claims."""
        self.residency.drop(self.offer.model)
        self.forget_texts()
        if self.preview_decoder is not None:
            self.preview_decoder.free()
        for owner in (f"texts of {self.offer.model}", f"preview decoder of {self.offer.model}"):
            self.residency.release(owner)

    def _compile_encode(self) -> tuple[EncodingCache, Encoding]:
        lora_rank, ids_shape = self.loras.rank_of_texts, self.preparation.ids_shape
        no_texts = text_arrays({}, self.device_count, ids_shape, lora_rank)
        program = self._compiler.compile(
            f"{self.offer.model} encode",
            partial(traced.encode, self.networks, counted_by_host=self.counted_by_host),
            self.shapes.text_encoders,
            *(devices.spread_shape(rows.shape, rows.dtype, self.mesh) for rows in no_texts),
            specs=(devices.REPLICATED, *[devices.BY_SEAT] * 6),
            key=self.key,
            apart=True,
            retry_shortage=True,
        )
        self._claim_encodings(program)
        encode = partial(call_on, program)
        encodings = EncodingCache(self.mesh, encode, ids_shape=ids_shape, lora_rank=lora_rank)
        encoding: Encoding = jax.tree.map(
            lambda leaf: devices.spread_shape(leaf.shape, leaf.dtype, self.mesh), program.out_info
        )
        return encodings, encoding

    def _claim_encodings(self, program: Program) -> None:
        """Reserve the devices' memory for the cache of encodings."""
        of_one = sum(leaf.size * leaf.dtype.itemsize for leaf in program.out_info)
        held = MOST_TEXTS * of_one // self.device_count + code_memory(program)
        need = Need(held=held, working=working_memory(program))
        texts = f"texts of {self.offer.model}"

        def claim() -> None:
            if not self.residency.claim(texts, need):
                or_raise_it = self.residency.or_raise_it(self.residency.lacking(texts, need))
                raise DevicesFailed(
                    f"A device has no room for {self.offer.model}, {in_bytes(self._parameters.size)}, beside "
                    f"{in_bytes(held)} for its texts: offer a smaller model{or_raise_it}."
                )

        self.residency.owner.do(claim)


def networks_of(checkpoint: Checkpoint, offer: Offer) -> Networks:
    """Return the networks of a checkpoint, and how they are used for an offer."""
    config, checker = checkpoint.unet.config, checkpoint.safety_checker
    return Networks(
        text_encoders=tuple(encoder.component.blueprint for encoder in checkpoint.text_encoders),
        penultimate=checkpoint.penultimate,
        unet=checkpoint.unet.blueprint,
        further_channels=int(config["in_channels"]) - checkpoint.latent_channels,
        takes_sizes=config.get("addition_embed_type") == "text_time",
        takes_guidance=takes_guidance(config),
        takes_lengths=offer.prompt_chunks > 1,
        vae=checkpoint.vae.blueprint,
        vae_in_float32=autoencoder_in_float32(checkpoint.vae.config),
        scaling_factor=checkpoint.scaling_factor,
        safety_checker=None if checker is None else checker.blueprint,
        preprocessing=None if checker is None else settle_preprocessing(checkpoint.preprocessor_config),
    )


def arrays_of(checkpoint: Checkpoint, loras: LoraBank) -> Any:
    """Return a checkpoint's parameters and LoRA rows as `ModelArrays`."""
    encoders = zip(TEXT_ENCODERS, checkpoint.text_encoders, strict=False)
    checker = checkpoint.safety_checker
    return ModelArrays(
        text_encoders=tuple(
            (encoder.component.parameters, loras.banks.get(name, {})) for name, encoder in encoders
        ),
        unet=(checkpoint.unet.parameters, loras.banks.get(UNET, {})),
        decoding=(checkpoint.vae.parameters, None if checker is None else checker.parameters),
    )


def check_guidance(offer: Offer, unet_config: Mapping[str, Any]) -> None:
    """Raise UnreadableCheckpoint for a guidance interval of a UNet that is conditioned on the scale."""
    if offer.guidance_interval != WHOLE and takes_guidance(unet_config):
        start, stop = offer.guidance_interval
        raise UnreadableCheckpoint(
            f"{offer.model} cannot be painted with guidance from {start:g} to {stop:g} of the steps: "
            "its UNet is trained on the guidance scale. Leave guidance_interval out."
        )


def takes_guidance(unet_config: Mapping[str, Any]) -> bool:
    """Whether the UNet is conditioned on the guidance scale."""
    return unet_config.get("time_cond_proj_dim") is not None


def check_sizes(offer: Offer, multiple: int) -> None:
    """Raise UnreadableCheckpoint for sizes that are no multiple of the autoencoder's factor."""
    wrong = [f"{width}x{height}" for width, height in offer.sizes if width % multiple or height % multiple]
    if wrong:
        raise UnreadableCheckpoint(
            f"{offer.model} cannot be painted in {', '.join(wrong)}: its autoencoder makes pictures whose "
            f"sides are multiples of {multiple}."
        )
