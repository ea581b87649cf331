"""The encodings of texts: computed on the devices, kept there, copied to the device that needs them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding

from sdjax_engine.denoising.state import Encoding
from sdjax_engine.memory import devices
from sdjax_engine.model.prepare import TokenizedText

MOST_TEXTS = 256
"""How many texts' encodings are kept for each model; one of SD 1.x takes 240 kB for each chunk."""


class EncodingCache:
    """The encodings of the texts used last, for one model; used by one thread.

    `encode` is the compiled program: it takes the text encoders' parameters, and one text for each device as
    arrays whose first axis is the device. No call waits for the devices.
    """

    def __init__(
        self,
        mesh: Mesh,
        encode: Callable[..., Encoding],
        *,
        ids_shape: tuple[int, ...],
        lora_rank: int = 0,
        most_texts: int = MOST_TEXTS,
    ) -> None:
        self._devices = list(mesh.devices.flat)
        self._sharding = NamedSharding(mesh, devices.BY_SEAT)
        self._encode = encode
        self._ids_shape = ids_shape
        self._lora_rank = lora_rank
        self._most_texts = most_texts
        self._encodings: OrderedDict[TokenizedText, dict[Any, Encoding]] = OrderedDict()

    def gather(self, parameters: Any, texts: Sequence[TokenizedText]) -> Encoding:
        """Return the encoding of one text for each device, (devices, ...) on the mesh."""
        self._add_missing(parameters, texts)
        copies = [self._copy_on(device, text) for device, text in zip(self._devices, texts, strict=True)]
        while len(self._encodings) > self._most_texts:
            self._encodings.popitem(last=False)
        shapes = [(len(copies), *leaf.shape[1:]) for leaf in copies[0]]
        return Encoding(
            *(
                jax.make_array_from_single_device_arrays(shape, self._sharding, list(leaves))
                for shape, leaves in zip(shapes, zip(*copies, strict=True), strict=True)
            )
        )

    def _add_missing(self, parameters: Any, texts: Sequence[TokenizedText]) -> None:
        """Encode the texts that are not in the cache, each on the first device that needs it."""
        missing: dict[TokenizedText, int] = {}
        for index, text in enumerate(texts):
            if text not in self._encodings:
                missing.setdefault(text, index)
        if not missing:
            return
        by_device = {index: text for text, index in missing.items()}
        arrays = text_arrays(by_device, len(self._devices), self._ids_shape, self._lora_rank)
        encoded = self._encode(parameters, *arrays)
        parts = [{shard.device: shard.data for shard in leaf.addressable_shards} for leaf in encoded]
        for text, index in missing.items():
            device = self._devices[index]
            self._encodings[text] = {device: Encoding(*(part[device] for part in parts))}

    def _copy_on(self, device: Any, text: TokenizedText) -> Encoding:
        copies = self._encodings[text]
        self._encodings.move_to_end(text)
        if device not in copies:
            any_copy = next(iter(copies.values()))
            copies[device] = Encoding(*(jax.device_put(leaf, device) for leaf in any_copy))
        return copies[device]


def text_arrays(
    texts: Mapping[int, TokenizedText], count: int, ids_shape: tuple[int, ...], lora_rank: int = 0
) -> tuple[npt.NDArray[Any], ...]:
    """Return the texts of `count` devices as arrays: ids, weights, chunks, silent, LoRA rows and scales.

    `texts` are by the device's number. A device without a text has no chunks and computes nothing.
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
