"""Prompts: cleaned, read for emphasis, divided into chunks of CLIP token ids, and their weights applied."""

from __future__ import annotations

from sdjax_engine.prompts.emphasis import MAX_WEIGHT, Piece, parse_emphasis
from sdjax_engine.prompts.tokenizer import Tokenizer, Tokens, clean
from sdjax_engine.prompts.weighting import apply_weights

__all__ = ["MAX_WEIGHT", "Piece", "Tokenizer", "Tokens", "apply_weights", "clean", "parse_emphasis"]
