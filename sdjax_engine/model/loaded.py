"""One model on the devices: its parameters, its networks and the cache of its texts' encodings."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh

from sdjax_engine.compiling.compiler import Compiler, Program, code_memory, working_memory
from sdjax_engine.compiling.per_device import Shares, call_on
from sdjax_engine.denoising import traced
from sdjax_engine.denoising.traced import Judges
from sdjax_engine.errors import DevicesFailed, UnreadableCheckpoint, in_bytes
from sdjax_engine.families.family import (
    Encoding,
    ImagePromptParameters,
    Networks,
    Parameters,
    Tokens,
    WithLoras,
)
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loras import LoraBank
from sdjax_engine.model.picture_classifier import PictureClassifier
from sdjax_engine.model.prepare import Preparation, Prepared, Text
from sdjax_engine.models.attention_kernels import found_backend
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.models.pixels import settle_preprocessing
from sdjax_engine.request import Lane, Offer
from sdjax_engine.weights import Checkpoint, Component
from sdjax_engine.weights.checkpoint import SAFETY_CHECKER

MOST_TEXTS, MOST_BYTES = 256, 256 * 2**20
"""The most texts whose encodings are kept for each model, and their most bytes on each device."""
MOST_LOOKS = 32
"""The most pictures whose encodings are kept for each model: each is of 64 KB at most with known adapters."""


def texts_kept(encoding: Encoding, count: int) -> int:
    """Return how many encodings of this form are kept; `encoding` has the shapes of `count` devices."""
    return min(MOST_TEXTS, max(2, MOST_BYTES // bytes_of(encoding, count)))


def bytes_of(encoding: Encoding, count: int) -> int:
    """Return the bytes of one text's encoding, of which `encoding` has the shapes of `count` devices."""
    leaves: list[jax.ShapeDtypeStruct] = jax.tree.leaves(encoding)
    return int(sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)) // count


class EncodingCache:
    """The encodings of the texts used last, or of the pictures that are prompts, for one model.

    `encode` calls the compiled program on some devices: it takes their numbers, the encoders' parameters, and
    the `arrays` of one text for each device, whose first axis is the device. `parameters` brings those of the
    encoders to the devices, and is called where a text is not known. No call waits for the devices. One
    thread calls the methods.

    A known encoding saves 2.4 ms of the processor with the demo. Its key is the whole `Text`: what the
    encoders read, and the rows and scales of LoRAs. For a picture it is all its pixels.
    """

    def __init__(
        self,
        mesh: Mesh,
        encode: Callable[..., Mapping[int, Encoding]],
        *,
        arrays: Callable[[Mapping[int, Any], int], tuple[Any, ...]],
        most_texts: int = MOST_TEXTS,
    ) -> None:
        self._devices = list(mesh.devices.flat)
        self._encode = encode
        self._arrays = arrays
        self._most_texts = most_texts
        self._encodings: OrderedDict[Hashable, dict[Any, Encoding]] = OrderedDict()  # device → copy

    def clear(self) -> None:
        """Forget every text."""
        self._encodings.clear()

    def knows(self, text: Hashable) -> bool:
        """Whether the encoding of a text is kept."""
        return text in self._encodings

    def encode(self, parameters: Callable[[], Any], texts: Iterable[Hashable]) -> None:
        """Encode texts, as many as are kept; the last of them are the first that are forgotten."""
        wanted = list(islice(dict.fromkeys(texts), self._most_texts))[::-1]
        missing, count = [text for text in wanted if not self.knows(text)], len(self._devices)
        self._use(filter(self.knows, wanted))
        for start in range(0, len(missing), count):
            numbered = {text: index for index, text in enumerate(missing[start : start + count])}
            self._encodings |= self._encoded(parameters(), numbered)
            self._forget()
        self._use(wanted)

    def gather(self, parameters: Callable[[], Any], texts: Mapping[int, Hashable]) -> Shares:
        """Return the encodings of `texts`, each on the device of its text, by the device's number."""
        entries = {text: self._encodings[text] for text in texts.values() if text in self._encodings}
        missing: dict[Hashable, int] = {}
        for index, text in texts.items():
            if text not in entries:
                missing.setdefault(text, index)
        if missing:
            entries |= self._encoded(parameters(), missing)
        copies = Shares(
            {index: on_device(self._devices[index], entries[text]) for index, text in texts.items()}
        )
        self._encodings |= entries
        self._use(texts.values())
        self._forget()
        return copies

    def _use(self, texts: Iterable[Hashable]) -> None:
        """Count these texts as the latest in use, the last as the latest of all."""
        for text in texts:
            self._encodings.move_to_end(text)

    def _forget(self) -> None:
        """Forget the texts used longest ago that are too many."""
        while len(self._encodings) > self._most_texts:
            self._encodings.popitem(last=False)

    def _encoded(self, parameters: Any, texts: Mapping[Hashable, int]) -> dict[Hashable, dict[Any, Encoding]]:
        """Encode each text on the device whose number it has: the first device that needs it."""
        by_device = {index: text for text, index in texts.items()}
        arrays = self._arrays(by_device, len(self._devices))
        encoded = self._encode(by_device.keys(), parameters, *arrays)
        return {text: {self._devices[index]: encoded[index]} for text, index in texts.items()}


def on_device(device: Any, copies: dict[Any, Encoding]) -> Encoding:
    """Return a text's encoding on a device, copied there from any other if need be."""
    if device not in copies:
        any_copy = next(iter(copies.values()))
        copies[device] = jax.tree.map(lambda leaf: jax.device_put(leaf, device), any_copy)
    return copies[device]


def text_arrays(
    tokens: Callable[[Mapping[int, Any], int], Tokens], lora_rank: int, texts: Mapping[int, Text], count: int
) -> tuple[Tokens, LoraRows]:
    """Return the texts of `count` devices as arrays of the host: what `tokens` returns, and the LoRAs."""
    read = tokens({index: text.read for index, text in texts.items()}, count)
    return read, lora_arrays(texts, count, lora_rank)


def picture_arrays(
    side: int, pictures: Mapping[int, bytes], count: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Return the pictures of `count` devices as arrays of the host, and where there are none.

    Each is uint8 (side, side, 3) as bytes, or empty.
    """
    pixels, absent = np.zeros((count, side, side, 3), np.uint8), np.ones(count, np.bool_)
    for device, each in pictures.items():
        if each:
            pixels[device] = np.frombuffer(each, np.uint8).reshape(side, side, 3)
            absent[device] = False
    return pixels, absent


def lora_arrays(texts: Mapping[int, Text], count: int, rank: int) -> LoraRows:
    """Return the LoRAs of the texts of `count` devices as arrays of the host, by the device's number."""
    rows: Any = np.zeros((count, rank), np.int32)
    scales: Any = np.zeros((count, rank), np.float32)
    for device, text in texts.items():
        rows[device] = np.frombuffer(text.lora_rows, np.int32)
        scales[device] = np.frombuffer(text.lora_scales, np.float32)
    return LoraRows(rows=rows, scales=scales)


TEXTS, DENOISER, DECODING, IMAGE_PROMPT = "text encoders", "denoiser", "autoencoder", "image adapter"
"""The names of the groups of a model's parameters that are moved together; each ControlNet is one more."""


class ModelArrays(NamedTuple):
    """The arrays that a model's programs are called with, grouped by program.

    `texts` are for `encode`, `denoiser` for `condition` and `denoise`, `decoding` for `decode`: the
    autoencoder's and the safety checker's. The autoencoder's are for `begin` too. `controlnets` are by their
    names in the offer, for `control` and `denoise`. `image_prompt` is for `look` and `image`, None without.
    """

    texts: tuple[WithLoras, ...]
    denoiser: WithLoras
    decoding: tuple[Parameters, Parameters | None]
    controlnets: dict[str, Parameters]
    image_prompt: ImagePromptParameters | None = None

    @property
    def groups(self) -> dict[str, Any]:
        """The arrays that are moved together, by the groups' names; those used longest are the first."""
        nets = {controlnet_group(name): each for name, each in self.controlnets.items()}
        image = {} if self.image_prompt is None else {IMAGE_PROMPT: self.image_prompt}
        return {DENOISER: self.denoiser, DECODING: self.decoding, TEXTS: self.texts, **nets, **image}

    def like(self, groups: Mapping[str, Any]) -> ModelArrays:
        """Return what `groups` has in place of these arrays."""
        nets = {name: groups[controlnet_group(name)] for name in self.controlnets}
        return ModelArrays(
            texts=groups[TEXTS],
            denoiser=groups[DENOISER],
            decoding=groups[DECODING],
            controlnets=nets,
            image_prompt=groups.get(IMAGE_PROMPT),
        )

    @property
    def together(self) -> list[tuple[str, ...]]:
        """The groups that one program needs at once, where they are several."""
        return [(DENOISER, controlnet_group(name)) for name in self.controlnets]


def group_of(component: str, networks: Networks) -> str:
    """Return the name of the group that has the parameters of a checkpoint's component."""
    if component == networks.denoiser.component:
        return DENOISER
    return TEXTS if component in networks.texts.components else DECODING


def controlnet_group(name: str) -> str:
    """Return the name of the group of a ControlNet's parameters."""
    return f"ControlNet {name}"


class LoadedModel:
    """A checkpoint whose parameters `residency` keeps on the devices or in the host's memory.

    `preparation` prepares its requests; `networks` and `judges` are what its programs are traced with;
    `adapts_denoiser` says that a LoRA that it offers adapts the denoiser. With a `preview_decoder`, whose
    parameters stay on the devices, lanes that are compiled afterwards decode their previews. Raises
    UnreadableCheckpoint where the offer does not suit the checkpoint, DevicesFailed where the devices can
    never hold it.
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
        self.networks = checkpoint.family.networks(checkpoint, offer)
        check_offer(offer, self.networks)
        self.judges = judges_of(checkpoint)
        self.offer = replace(offer, most_skipped=self.networks.texts.most_skipped)
        self.mesh = compiler.mesh
        self.device_count = devices.device_count(compiler.mesh)
        self.counted_by_host = devices.counts_on_host(compiler.mesh)
        self.loras = loras or LoraBank()
        self.adapts_denoiser = self.networks.denoiser.component in self.loras.banks
        self.preparation = Preparation(offer, checkpoint, self.networks, self.loras)
        self.prepare = self.preparation.prepare
        self.checkpoint = checkpoint
        self.residency = residency or Residency(compiler.mesh)
        self.preview_decoder: Component | None = None
        self.classifier: PictureClassifier | None = None
        arrays = arrays_of(checkpoint, self.networks, self.loras)
        self._parameters = self.residency.owner.do(
            lambda: self.residency.adopt(
                *(offer.model, arrays.groups), together=arrays.together, arrival=arrival
            )
        )
        self.shapes = arrays.like(self._parameters.shapes)
        self._compiler = compiler
        self._encode_lock = threading.Lock()
        self._encode: tuple[EncodingCache, Encoding] | None = None
        self._look: tuple[EncodingCache, Encoding] | None = None

    def use_classifier(self, classifier: PictureClassifier) -> None:
        """Have the pictures of lanes that are compiled afterwards judged by this classifier."""
        self.classifier = classifier
        self.judges = replace(self.judges, of_classifier=classifier.preprocessing)

    @property
    def encodings(self) -> EncodingCache:
        """The encodings of its texts; their program is compiled when they are first needed."""
        return self._compiled_encode[0]

    @property
    def encoding(self) -> Encoding:
        """One text's encoding for each device, as shapes."""
        return self._compiled_encode[1]

    @property
    def looks(self) -> EncodingCache:
        """The encodings of pictures that are prompts, by their pixels; b"" is no picture."""
        return self._compiled_look[0]

    @property
    def look(self) -> Encoding:
        """One picture's encoding for each device, as shapes."""
        return self._compiled_look[1]

    def on_devices(self, *groups: str) -> list[Any]:
        """Return the parameters of all groups that one program needs, after bringing them to the devices.

        They may be evicted by the next call. Raises the devices' error.
        """
        self.residency.bring(self.offer.model, *groups)
        return [group.arrays for group in self._parameters.of(groups)]

    def texts_on_devices(self) -> Any:
        """Return the text encoders' parameters, as `on_devices` does."""
        return self.on_devices(TEXTS)[0]

    @property
    def has_text_encoders(self) -> bool:
        """Whether the text encoders are on the devices."""
        return self.residency.has(self.offer.model, TEXTS)

    @property
    def text_seconds(self) -> float:
        """How long the devices take to fetch the text encoders, and the denoiser again if it made room.

        It is 0 where the text encoders are on the devices, and before any move.
        """
        return self.residency.turn_seconds(self.offer.model, TEXTS, DENOISER)

    def knows_texts(self, prepared: Prepared, halves: int) -> bool:
        """Whether a request is admitted without the text encoders."""
        return all(map(self.encodings.knows, prepared.texts[-halves:]))

    def encode_ahead(self, requests: Iterable[Prepared], halves: int) -> None:
        """Encode the texts of requests at once, as many as are kept, the first before the others."""
        self.encodings.encode(
            self.texts_on_devices, (text for one in requests for text in one.texts[-halves:])
        )

    @property
    def decodes_in_float32(self) -> bool:
        """Whether the autoencoder computes in float32 anyway."""
        return {str(shape.dtype) for shape in self.shapes.decoding[0].values()} == {"float32"}

    @property
    def key(self) -> object:
        """What the model's programs depend on besides their arguments, as plain data."""
        checkpoint = self.checkpoint
        configs = {name: each.config for name, each in checkpoint.components.items()}
        rest = checkpoint.preprocessor_config, self.offer.prompt_chunks, found_backend().key
        judged = [] if self.classifier is None else [self.classifier.key]
        return [checkpoint.pipeline, checkpoint.index, configs, *rest, *judged]

    @property
    def control_key(self) -> object:
        """What programs with ControlNets depend on besides `key` and their arguments, as plain data."""
        return [dict(each.config) for each in self.checkpoint.controlnets.values()][:1]

    @property
    def image_key(self) -> object:
        """What programs with image prompts depend on besides `key` and their arguments, as plain data."""
        return {name: dict(each.config) for name, each in self.checkpoint.image_prompt.items()}

    def halves(self, lane: Lane) -> int:
        """How many texts a picture of this lane has: two with guidance by the negative prompt."""
        return self.networks.guidance.texts(lane)

    @property
    def _compiled_encode(self) -> tuple[EncodingCache, Encoding]:
        if self._encode is None:
            with self._encode_lock:
                self._encode = self._encode or self._compile_encode()
        return self._encode

    @property
    def _compiled_look(self) -> tuple[EncodingCache, Encoding]:
        if self._look is None:
            with self._encode_lock:
                self._look = self._look or self._compile_look()
        return self._look

    def forget_texts(self) -> None:
        """Drop the encodings of texts and pictures: work that failed may have made some of them."""
        for made in (self._encode, self._look):
            if made is not None:
                made[0].clear()

    def release(self) -> None:
        """Free everything that it has on the devices and in the host's memory, and give back its claims."""
        self.residency.drop(self.offer.model)
        self.forget_texts()
        if self.preview_decoder is not None:
            self.preview_decoder.free()
        for what in ("texts", "image prompts", "preview decoder"):
            self.residency.release(f"{what} of {self.offer.model}")

    def _compile_encode(self) -> tuple[EncodingCache, Encoding]:
        texts, count = self.networks.texts, self.device_count
        arrays = partial(text_arrays, texts.tokens, self.loras.rank_of(*texts.components))
        program = self._compiler.compile(
            f"{self.offer.model} encode",
            partial(traced.encode, texts, counted_by_host=self.counted_by_host),
            self.shapes.texts,
            *self._spread(arrays({}, count)),
            specs=(devices.REPLICATED, *[devices.BY_SEAT] * 2),
            key=self.key,
            apart=True,
            retry_shortage=True,
        )
        most = texts_kept(program.out_info, count)
        return self._cache(program, arrays, most), self._spread(program.out_info)

    def _compile_look(self) -> tuple[EncodingCache, Encoding]:
        prompts = self.networks.image_prompts
        assert prompts is not None, "only a model with image prompts looks at pictures"
        arrays = partial(picture_arrays, prompts.side)
        program = self._compiler.compile(
            f"{self.offer.model} look",
            partial(traced.look, prompts),
            self.shapes.image_prompt,
            *self._spread(arrays({}, self.device_count)),
            specs=(devices.REPLICATED, *[devices.BY_SEAT] * 2),
            key=[self.key, self.image_key],
            apart=True,
            retry_shortage=True,
        )
        return self._cache(program, arrays, MOST_LOOKS, "image prompts"), self._spread(program.out_info)

    def _spread(self, arrays: Any) -> Any:
        """Return the shapes of these arrays, or shapes, whose first axis is the device."""
        return jax.tree.map(lambda each: devices.spread_shape(each.shape, each.dtype, self.mesh), arrays)

    def _cache(
        self,
        program: Program,
        arrays: Callable[[Mapping[int, Any], int], tuple[Any, ...]],
        most: int,
        what: str = "texts",
    ) -> EncodingCache:
        """Return a cache of `most` encodings by a program; reserves the devices' memory for it."""
        held = most * bytes_of(program.out_info, self.device_count) + code_memory(program)
        need = Need(held=held, working=working_memory(program))
        owner = f"{what} of {self.offer.model}"

        def claim() -> None:
            if not self.residency.claim(owner, need):
                or_raise_it = self.residency.or_raise_it(self.residency.lacking(owner, need))
                size = in_bytes(self._parameters.at_once)
                raise DevicesFailed(
                    f"A device has no room for {self.offer.model}, {size}, beside {in_bytes(held)} "
                    f"for its {what}: offer a smaller model{or_raise_it}."
                )

        self.residency.owner.do(claim)
        return EncodingCache(self.mesh, partial(call_on, program), arrays=arrays, most_texts=most)


def judges_of(checkpoint: Checkpoint) -> Judges:
    """Return what judges a checkpoint's pictures."""
    checker = checkpoint.components.get(SAFETY_CHECKER)
    if checker is None:
        return Judges()
    preprocessing = settle_preprocessing(checkpoint.preprocessor_config)
    return Judges(safety_checker=checker.blueprint, preprocessing=preprocessing)


def arrays_of(checkpoint: Checkpoint, networks: Networks, loras: LoraBank) -> ModelArrays:
    """Return a checkpoint's parameters and LoRA rows."""
    components, checker = checkpoint.components, checkpoint.components.get(SAFETY_CHECKER)

    def adapted(name: str) -> WithLoras:
        return components[name].parameters, loras.banks.get(name, {})

    autoencoder = components[networks.autoencoder.component]
    return ModelArrays(
        texts=tuple(map(adapted, networks.texts.components)),
        denoiser=adapted(networks.denoiser.component),
        decoding=(autoencoder.parameters, None if checker is None else checker.parameters),
        controlnets={name: each.parameters for name, each in checkpoint.controlnets.items()},
        image_prompt=ImagePromptParameters(
            **{name: each.parameters for name, each in checkpoint.image_prompt.items()}
        )
        if checkpoint.image_prompt
        else None,
    )


def _check_control_types(offer: Offer, networks: Networks) -> None:
    """Raise UnreadableCheckpoint for ControlNets without use, and for types that a union lacks."""
    if offer.controlnets and networks.control is None:
        raise UnreadableCheckpoint(f"{offer.model} is of a family that has no ControlNets: leave them out.")
    known = {} if networks.control is None else networks.control.types
    unknown = [kind for kind, _ in offer.control_types if kind not in known]
    if unknown:
        raise UnreadableCheckpoint(
            f"The ControlNets of {offer.model} know no control pictures of the types {', '.join(unknown)}: "
            f"choose from {', '.join(known)}."
        )


def check_offer(offer: Offer, networks: Networks) -> None:
    """Raise UnreadableCheckpoint for what the networks cannot do: sizes, skipped layers, given pictures."""
    _check_control_types(offer, networks)
    if offer.references > networks.most_references:
        few = f"at most {networks.most_references}" if networks.most_references else "no"
        raise UnreadableCheckpoint(
            f"{offer.model} is of a family that takes {few} reference pictures: leave them out."
        )
    multiple, most = networks.latents.multiple, networks.texts.most_skipped
    if offer.clip_skip > most:
        raise UnreadableCheckpoint(
            f"{offer.model} cannot be painted with clip_skip = {offer.clip_skip}: its text encoders allow "
            f"{most} at most."
        )
    wrong = [f"{width}x{height}" for width, height in offer.sizes if width % multiple or height % multiple]
    if wrong:
        raise UnreadableCheckpoint(
            f"{offer.model} cannot be painted in {', '.join(wrong)}: its autoencoder makes pictures whose "
            f"sides are multiples of {multiple}."
        )
