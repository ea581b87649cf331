"""Reading the settings of an IP-Adapter's networks, which its file tells by the shapes of its tensors.

Nothing here imports flax: a start whose programs are all kept builds no network.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sdjax_engine.errors import quoted
from sdjax_engine.models.config import Config, check_layers, is_count, refuse

PLAIN, PLUS, ATTENTIONS = "ImageProjection", "IPAdapterPlusImageProjection", "ImagePromptAttentions"
PLUS_QUERIES = "num_queries"
"""The key of a Plus that a plain adapter does not have."""
HALVES = ("down_blocks", "up_blocks", "mid_block")


def in_order(places: Iterable[str]) -> list[str]:
    """Return the cross-attentions with an image prompt in the order of the files: down, up, middle."""

    def key(place: str) -> tuple[int, list[int]]:
        parts = place.split(".")
        return HALVES.index(parts[0]), [int(part) for part in parts if part.isdigit()]

    return sorted((place for place in places if place.endswith(".attn2")), key=key)


def settle_projection_config(config: Config) -> dict[str, Any]:
    """Return the values that an `ImageProjection` is built from; raises UnreadableCheckpoint."""
    return counts(PLAIN, config, ("image_embed_dim", "cross_attention_dim", "num_image_text_embeds"))


def settle_resampler_config(config: Config) -> dict[str, Any]:
    """Return the values that an `IPAdapterPlusImageProjection` is built from; raises UnreadableCheckpoint."""
    check_layers(PLUS, key="depth", value=config["depth"])
    widths = ("embed_dims", "output_dims", "hidden_dims", "dim_head", "heads", "inner")
    return counts(PLUS, config, (*widths, "depth", PLUS_QUERIES))


def counts(model: str, config: Config, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of these keys; raises UnreadableCheckpoint unless each is a number above 0."""
    refuse(model, [f"{key}={quoted(config[key])}" for key in keys if not is_count(config[key])])
    return {key: config[key] for key in keys}
