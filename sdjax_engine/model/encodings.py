"""The encodings of texts: made on the devices, remembered there, handed to whichever device needs them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding

from sdjax_engine.denoising.state import Encoding
from sdjax_engine.memory import devices

REMEMBERED = 256
"""How many texts' encodings are kept for each model: 240 kB each for SD 1.x, thrice for each more chunk."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """One text ready for the text encoders; equal texts have equal encodings.

    `ids` is (encoders, chunks, length) int32 and `weights` (chunks, length) float32, as bytes, filled up to
    the most chunks there are; `chunks` says how many count. `silent` texts are encoded as zeros. The LoRAs
    that work on the encoders are `lora_rows` (rank,) int32 and `lora_scales` (rank,) float32, as bytes.
    """

    ids: bytes = field(repr=False)
    weights: bytes = field(repr=False)
    chunks: int
    silent: bool = False
    lora_rows: bytes = field(default=b"", repr=False)
    lora_scales: bytes = field(default=b"", repr=False)


class TextEncodings:
    """The encodings of the texts in use, one model's; used by one thread.

    `encode` is the compiled program: one text for each device, given as arrays whose first axis is the
    device. Nothing here waits for the devices.
    """

    def __init__(
        self,
        mesh: Mesh,
        encode: Callable[..., Encoding],
        *,
        ids_shape: tuple[int, ...],
        lora_rank: int = 0,
        remembered: int = REMEMBERED,
    ) -> None:
        self._devices = list(mesh.devices.flat)
        self._sharding = NamedSharding(mesh, devices.BY_SEAT)
        self._encode = encode
        self._ids_shape = ids_shape
        self._lora_rank = lora_rank
        self._remembered = remembered
        self._known: OrderedDict[Text, dict[Any, Encoding]] = OrderedDict()

    def gather(self, wanted: Sequence[Text]) -> Encoding:
        """Return the encoding of one text for each device, (devices, ...) on the mesh."""
        self._learn(wanted)
        here = [self._on(device, text) for device, text in zip(self._devices, wanted, strict=True)]
        self._forget()
        return Encoding(*(self._join(parts) for parts in zip(*here, strict=True)))

    def _learn(self, wanted: Sequence[Text]) -> None:
        """Encode what is not known on the device that wants it first, which need not wait for others."""
        wanting: dict[Text, int] = {}
        for index, text in enumerate(wanted):
            if text not in self._known:
                wanting.setdefault(text, index)
        if not wanting:
            return
        texts = {index: text for text, index in wanting.items()}
        made = self._encode(*text_arrays(texts, len(self._devices), self._ids_shape, self._lora_rank))
        parts = [{shard.device: shard.data for shard in leaf.addressable_shards} for leaf in made]
        for text, index in wanting.items():
            device = self._devices[index]
            self._known[text] = {device: Encoding(*(part[device] for part in parts))}

    def _on(self, device: Any, text: Text) -> Encoding:
        copies = self._known[text]
        self._known.move_to_end(text)
        if device not in copies:
            any_copy = next(iter(copies.values()))
            copies[device] = Encoding(*(jax.device_put(leaf, device) for leaf in any_copy))
        return copies[device]

    def _forget(self) -> None:
        while len(self._known) > self._remembered:
            self._known.popitem(last=False)

    def _join(self, parts: Sequence[jax.Array]) -> jax.Array:
        shape = (len(parts), *parts[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, self._sharding, list(parts))


def text_arrays(
    texts: Mapping[int, Text], count: int, ids_shape: tuple[int, ...], lora_rank: int = 0
) -> tuple[npt.NDArray[Any], ...]:
    """Give `count` devices, by number, a text each: ids, weights, chunks, silent and both of LoRA.

    A device without one gets no chunks, which costs nothing.
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


Encoder = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
"""One text encoder: ids (1, length) → hidden (1, length, width) and pooled (1, pooled width)."""

Weigh = Callable[[jax.Array, jax.Array], jax.Array]


def encode_text(  # noqa: PLR0917 – one text's arrays, in their order
    encoders: Sequence[Encoder],
    weigh: Weigh,
    ids: jax.Array,
    weights: jax.Array,
    chunks: jax.Array,
    silent: jax.Array,
    *,
    pooled: bool,
) -> Encoding:
    """Encode one device's text, chunk by chunk; the program's arithmetic, pure JAX.

    `ids` is (1, encoders, most chunks, length). The encoders' widths stand side by side; `pooled` asks for
    the last encoder's pooled encoding of the first chunk.
    """
    _, _, most, length = ids.shape

    def one(chunk: jax.Array) -> tuple[jax.Array, jax.Array]:
        row = jax.lax.dynamic_index_in_dim(ids[0], chunk, axis=1, keepdims=False)
        made = [encoder(row[index][None]) for index, encoder in enumerate(encoders)]
        factors = jax.lax.dynamic_index_in_dim(weights[0], chunk, keepdims=True)
        hidden = [weigh(each, factors) for each, _ in made]
        return jnp.concatenate(hidden, axis=-1), made[-1][1][:, : None if pooled else 0]

    def write(chunk: jax.Array, made: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        hidden, first = made
        more, its_pooled = one(chunk)
        return jax.lax.dynamic_update_slice_in_dim(hidden, more, chunk, 0), jnp.where(
            chunk == 0, its_pooled, first
        )

    like_hidden, like_pooled = jax.eval_shape(one, chunks[0])
    empty = jnp.zeros((most, *like_hidden.shape[1:]), like_hidden.dtype)
    hidden, first = jax.lax.fori_loop(
        0, chunks[0], write, (empty, jnp.zeros(like_pooled.shape, like_pooled.dtype))
    )
    audible = ~silent[0]
    return Encoding(
        hidden=jnp.where(audible, hidden, 0).reshape(1, most * length, -1),
        pooled=jnp.where(audible, first, 0),
        length=jnp.maximum(chunks, 1) * length,
    )
