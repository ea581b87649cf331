"""Encoded texts of Z-Image: the last states but one of a language model."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sdjax_engine.families.chat_texts import Tokens


class Encoding(NamedTuple):
    """The encoding of one text for each device; only the first `lengths` states count."""

    states: jax.Array  # (1, LENGTH, width)
    lengths: jax.Array  # (1,) int32


def encoded(encoder: Any, tokens: Tokens) -> Encoding:
    """*Traced:* return the encoding of one text; the `encoder` has no last layer."""
    return Encoding(states=encoder(tokens.ids), lengths=jnp.asarray(tokens.lengths))
