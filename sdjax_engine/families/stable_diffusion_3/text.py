"""Texts of Stable Diffusion 3: the ids of two of CLIP's encoders and of T5, and their encodings in a row.

Texts are plain for all encoders: nothing of them is cleaned or read as emphasis, as in the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from sdjax_engine.families.family import Blueprint, WithLoras
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.prompts import Tokenizer, unknown_words
from sdjax_engine.prompts.unigram import UnigramTokenizer
from sdjax_engine.request import PromptFacts

LENGTH = 256
"""The ids of a text for T5, end and padding included: the reference's `max_sequence_length`."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """One text as the encoders read it: ids as int32 bytes, for CLIP (2, length), for T5 (LENGTH,).

    Without T5 it has none. CLIP's encoding is taken `clip_skip` layers before the usual one.
    """

    clip: bytes = field(repr=False)
    t5: bytes = field(repr=False)
    clip_skip: int


class Tokens(NamedTuple):
    """One text for each device; `t5` is None without T5."""

    clip: npt.NDArray[np.int32] | jax.Array  # (1, 2, length) int32
    t5: npt.NDArray[np.int32] | jax.Array | None  # (1, LENGTH) int32
    clip_skip: npt.NDArray[np.int32] | jax.Array  # (1,) int32


class Encoding(NamedTuple):
    """The encoding of one text for each device. All tokens count, padding included."""

    states: jax.Array  # (1, tokens, width)
    pooled: jax.Array  # (1, pooled width)


@dataclass(frozen=True, kw_only=True, eq=False)
class TripleTexts:
    """Two of CLIP's text encoders side by side and, where a checkpoint has it, T5 after them.

    `width` is that of the transformer's tokens; CLIP's states have zeros up to it. A request may skip
    `most_skipped` layers of CLIP's.
    """

    components: tuple[str, ...]
    blueprints: tuple[Blueprint, ...] = field(repr=False)
    clip: tuple[Tokenizer, ...] = field(repr=False)
    t5: UnigramTokenizer | None = field(repr=False)
    width: int
    most_skipped: int
    known_words: frozenset[str] = field(repr=False)

    most_vectors = 0
    widths = MappingProxyType[str, int]({})

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of CLIP's ids: (encoders, length)."""
        return len(self.clip), self.clip[0].length

    def read(self, prompt: str, *, negative: bool, clip_skip: int) -> tuple[Text, PromptFacts]:
        """Return a prompt as token ids, and facts of it as T5 takes it or, without T5, CLIP's first encoder.

        As in the reference, layers are skipped for the prompt alone.
        """
        found = [each.plain(prompt) for each in self.clip]
        last = None if self.t5 is None else self.t5.tokens(prompt, length=LENGTH)
        longest = found[0] if last is None else last
        facts = PromptFacts(
            tokens=longest.count,
            limit=longest.limit,
            cut=longest.cut,
            unknown=unknown_words(prompt, self.known_words),
        )
        text = Text(
            clip=b"".join(each.ids.tobytes() for each in found),
            t5=b"" if last is None else last.ids.tobytes(),
            clip_skip=0 if negative else clip_skip,
        )
        return text, facts

    def tokens(self, texts: Mapping[int, Text], count: int) -> Tokens:
        """Return the texts of `count` devices as arrays of the host."""
        clip, skips = np.zeros((count, *self.shape), np.int32), np.zeros(count, np.int32)
        t5 = None if self.t5 is None else np.zeros((count, LENGTH), np.int32)
        for device, text in texts.items():
            clip[device] = np.frombuffer(text.clip, np.int32).reshape(self.shape)
            skips[device] = text.clip_skip
            if t5 is not None:
                t5[device] = np.frombuffer(text.t5, np.int32)
        return Tokens(clip=clip, t5=t5, clip_skip=skips)

    def encode(
        self, parameters: Sequence[WithLoras], tokens: Tokens, loras: LoraRows, *, counted_by_host: bool
    ) -> Encoding:
        """Encode one text; there is no loop. Without T5 its tokens are zeros, which count too."""
        del counted_by_host
        encoders = [
            blueprint.adapted(weights, bank, *loras)
            for blueprint, (weights, bank) in zip(self.blueprints, parameters, strict=True)
        ]
        skip = jnp.asarray(tokens.clip_skip)[0]
        outputs = [
            encoder(tokens.clip[:, index], penultimate=True, skip=skip)
            for index, encoder in enumerate(encoders[: len(self.clip)])
        ]
        of_clip = jnp.concatenate([states for states, _ in outputs], axis=-1)
        of_clip = jnp.pad(of_clip, ((0, 0), (0, 0), (0, self.width - of_clip.shape[-1])))
        if tokens.t5 is None:
            of_t5 = jnp.zeros((1, LENGTH, self.width), of_clip.dtype)
        else:
            of_t5 = encoders[-1](tokens.t5)
        return Encoding(
            states=jnp.concatenate([of_clip, of_t5], axis=1),
            pooled=jnp.concatenate([pooled for _, pooled in outputs], axis=-1),
        )
