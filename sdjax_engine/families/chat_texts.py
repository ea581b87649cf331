"""Texts as one message to a language model, which Z-Image and FLUX.2 klein have as text encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.families.family import Blueprint, Encoding, WithLoras
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.prompts import unknown_words
from sdjax_engine.prompts.chat import ChatTokenizer
from sdjax_engine.request import PromptFacts

LENGTH = 512
"""The ids of a text, template and padding included: the reference's `max_sequence_length`."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """One text as the encoder reads it: `ids` (LENGTH,) int32 as bytes, of which the first `length` count."""

    ids: bytes = field(repr=False)
    length: int


class Tokens(NamedTuple):
    """One text for each device."""

    ids: npt.NDArray[np.int32] | jax.Array  # (1, LENGTH) int32
    lengths: npt.NDArray[np.int32] | jax.Array  # (1,) int32


@dataclass(frozen=True, kw_only=True, eq=False)
class ChatTexts:
    """A language model and its tokenizer. Prompts are raw: nothing of them is emphasis.

    `encoded` returns the encoding of one text from the model's module, for use within one traced function.
    The negative prompt is empty, whatever a request says, unless `reads_negative`.
    """

    components: tuple[str, ...]
    blueprint: Blueprint = field(repr=False)
    tokenizer: ChatTokenizer = field(repr=False)
    known_words: frozenset[str] = field(repr=False)
    encoded: Callable[[Any, Tokens], Encoding] = field(repr=False)
    reads_negative: bool = True

    most_skipped = most_vectors = 0
    widths = MappingProxyType[str, int]({})

    def read(self, prompt: str, *, negative: bool, clip_skip: int) -> tuple[Text, PromptFacts]:
        """Return a prompt in its template as token ids, and facts of it; an empty one is a message too."""
        del clip_skip
        prompt = "" if negative and not self.reads_negative else prompt
        found = self.tokenizer.tokens(prompt, length=LENGTH)
        facts = PromptFacts(
            tokens=found.count,
            limit=found.limit,
            cut=found.cut,
            unknown=unknown_words(prompt, self.known_words),
        )
        return Text(ids=found.ids.tobytes(), length=found.length), facts

    def tokens(self, texts: Mapping[int, Text], count: int) -> Tokens:
        """Return the texts of `count` devices as arrays of the host."""
        tokens = Tokens(ids=np.zeros((count, LENGTH), np.int32), lengths=np.ones(count, np.int32))
        for device, text in texts.items():
            tokens.ids[device], tokens.lengths[device] = np.frombuffer(text.ids, np.int32), text.length
        return tokens

    def encode(
        self, parameters: Sequence[WithLoras], tokens: Tokens, loras: LoraRows, *, counted_by_host: bool
    ) -> Encoding:
        """Encode one text; there is no loop."""
        del counted_by_host
        [(weights, bank)] = parameters
        return self.encoded(self.blueprint.adapted(weights, bank, *loras), tokens)
