"""Prompts: cleaned, read for emphasis, divided into chunks of CLIP token ids, and their weights applied.

Only `weighting.py`, which runs on the device, imports JAX.
"""

from __future__ import annotations

from sdjax_engine.prompts.tokenizer import (
    MAX_WEIGHT,
    Piece,
    Prompt,
    TokenizedText,
    Tokenizer,
    Tokens,
    clean,
    padded_text,
    parse_emphasis,
    read_prompt,
    tokens_of_each,
    unknown_words,
)
from sdjax_engine.prompts.triggers import Triggers

__all__ = [
    "MAX_WEIGHT",
    "Piece",
    "Prompt",
    "TokenizedText",
    "Tokenizer",
    "Tokens",
    "Triggers",
    "clean",
    "padded_text",
    "parse_emphasis",
    "read_prompt",
    "tokens_of_each",
    "unknown_words",
]
